package trial

import (
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-project/berth/cmd/berth-scheduler/internal/memapi"
)

// A new scheduler knows from the pods alone what is held.
func TestRestart(t *testing.T) {
	c := newCluster(t)
	c.addMachine("n0", small())
	first := c.begin()
	c.create(pinned("a", 1, 4), pinned("b", 1, 3))
	c.bound("a")
	c.bound("b")
	first.kill()
	c.remove("a")
	c.create(pinned("c", 1, 6), pinned("d", 1, 10))
	c.begin()
	c.bound("c")
	c.bound("d")
	c.audit()
	c.create(pinned("e", 1, 4))
	t.Log(c.pending("e"))
	c.remove("b")
	c.bound("e")
	c.audit()
}

// A scheduler that dies while its binding is on the way: applied or not, the
// next one gives no CPU twice and leaves no pod behind.
func TestDeathInBind(t *testing.T) {
	for _, fault := range []memapi.Fault{memapi.LostBefore, memapi.LostAfter} {
		c := newCluster(t)
		c.addMachine("n0", small())
		first := c.begin()
		reached := make(chan struct{}, 100)
		c.api.FailBinds(func(string, string) memapi.Fault {
			reached <- struct{}{}
			return fault
		})
		c.create(pinned("a", 1, 4))
		<-reached
		first.kill()
		c.api.FailBinds(nil)
		c.create(pinned("b", 1, 18))
		c.begin()
		c.bound("a")
		c.bound("b")
		c.audit()
	}
}

// Each kind of failed binding, once: the pod is bound in the end, nothing is
// given twice, and nothing stays reserved for a pod that is gone.
func TestBindFaults(t *testing.T) {
	for fault := memapi.Refused; fault <= memapi.Late; fault++ {
		t.Run(faultName(fault), func(t *testing.T) {
			c := newCluster(t)
			c.addMachine("n0", small())
			c.begin()
			var failed atomic.Bool
			c.api.FailBinds(func(_, pod string) memapi.Fault {
				if pod == "a" && failed.CompareAndSwap(false, true) {
					return fault
				}
				return memapi.None
			})
			c.create(pinned("a", 1, 10))
			c.until("the binding failed", failed.Load)
			c.create(pinned("b", 1, 12))
			c.bound("a")
			c.bound("b")
			c.audit()
			c.remove("a")
			c.remove("b")
			c.create(pinned("all", 1, 22))
			c.bound("all")
			c.audit()
		})
	}
}

// While it is open whether a binding went through, its CPUs go to no
// other pod, and once it is known that it did not they do.
func TestAmbiguousBindingKeepsCPUs(t *testing.T) {
	c := newCluster(t)
	c.addMachine("n0", small())
	c.begin()
	var lost atomic.Int64
	c.api.FailBinds(func(_, pod string) memapi.Fault {
		if pod == "a" {
			lost.Add(1)
			return memapi.LostBefore
		}
		return memapi.None
	})
	c.create(pinned("a", 1, 22))
	c.until("some bindings were lost", func() bool { return lost.Load() >= 2 })
	c.create(pinned("b", 1, 4))
	time.Sleep(200 * time.Millisecond)
	c.api.Remove(podPath, "default", "a")
	c.bound("b")
	c.create(pinned("c", 1, 18))
	c.bound("c")
	c.audit()
}

// A binding to n0 is applied and its answer lost; the scheduler, which does not
// see the pod bound yet, binds it to n1, which fails. Whatever n1 kept for it is
// given up.
func TestBoundElsewhere(t *testing.T) {
	c := newCluster(t)
	c.addMachine("n0", small())
	c.begin()
	calls := 0
	c.api.FailBinds(func(_, pod string) memapi.Fault {
		if pod != "a" {
			return memapi.None
		}
		calls++
		switch calls {
		case 1:
			c.api.Mute(podPath, true)
			closed := node("n0", small().cpus())
			closed.Spec.Unschedulable = true
			c.addNode(closed)
			c.addMachine("n1", small())
			return memapi.LostAfter
		case 2:
			c.api.Mute(podPath, false)
			time.Sleep(200 * time.Millisecond) // the scheduler sees it on n0
		}
		return memapi.None
	})
	c.create(pinned("a", 1, 22))
	c.until("the second binding was tried", func() bool { return c.api.Binds() >= 2 })
	c.create(pinned("b", 1, 22))
	if got := c.bound("a").Spec.NodeName; got != "n0" {
		t.Fatalf("a is on %s", got)
	}
	if got := c.bound("b").Spec.NodeName; got != "n1" {
		t.Fatalf("b is on %s", got)
	}
	c.audit()
}

// The accounting rule holds from the first pod that a new scheduler binds, also
// where it learns late which CPUs the nodes have.
func TestRuleHoldsFromTheStart(t *testing.T) {
	c := newCluster(t)
	c.addMachine("n0", small())
	first := c.begin()
	for i := range 5 {
		c.create(pinned(name("go-demo", i), 1, 4))
		c.bound(name("go-demo", i))
	}
	first.kill()
	c.create(ordinary("ordinary", 5000, 0))
	c.api.Hold(topologyPath, true)
	time.AfterFunc(time.Second, func() { c.api.Hold(topologyPath, false) })
	c.begin()
	t.Log(c.pending("ordinary"))
	c.audit()
}

// A pod that is deleted, and one that is made anew under its name, while the
// binding is on the way: the new one is another pod.
func TestDeletedWhileBinding(t *testing.T) {
	c := newCluster(t)
	c.addMachine("n0", small())
	c.begin()
	var once, anew atomic.Bool
	c.api.FailBinds(func(_, pod string) memapi.Fault {
		if pod == "a" && once.CompareAndSwap(false, true) {
			c.api.Remove(podPath, "default", "a")
			if err := c.api.Put(podPath, "default", "a", pinned("a", 1, 22)); err != nil {
				t.Error(err)
			}
			anew.Store(true)
		}
		return memapi.None
	})
	c.create(pinned("a", 1, 4))
	c.until("the first was deleted, and the second is there", anew.Load)
	if p := c.bound("a"); c.placement(p).Containers["app"].CPUs != "0-21" {
		t.Fatalf("the second got %s", p.Annotations["berth.dev/placement"])
	}
	c.audit()
}

// The API server is away for a while with pods in all states.
func TestAPIServerAway(t *testing.T) {
	c := newCluster(t)
	c.addMachine("n0", small())
	c.begin()
	c.create(pinned("a", 1, 4))
	c.bound("a")
	c.api.Away(true)
	time.Sleep(500 * time.Millisecond)
	c.api.Away(false)
	c.create(pinned("b", 1, 18))
	c.bound("b")
	c.create(pinned("c", 1, 4))
	c.remove("a")
	c.bound("c")
	c.audit()
}

// A pod that another scheduler bound without a placement counts with unknown
// CPUs, until its agent says which.
func TestForeignPodIsAdopted(t *testing.T) {
	c := newCluster(t)
	c.addMachine("n0", small())
	c.begin()
	p := pinned("foreign", 1, 4)
	p.Spec.NodeName = "n0"
	c.create(p)
	c.create(pinned("large", 1, 19))
	t.Log(c.pending("large"))
	c.create(pinned("fits", 1, 4))
	got := c.bound("fits")
	foreign := c.pod("foreign")
	placement := c.placement(got)
	container := placement.Containers["app"]
	container.CPUs = "20-23"
	if c.placement(got).Containers["app"].CPUs == container.CPUs {
		container.CPUs = "0-3"
	}
	placement.Containers["app"] = container
	foreign.Annotations["berth.dev/placement"] = placement.Encode()
	c.update(foreign)
	c.create(pinned("rest", 1, 14))
	c.bound("rest")
	c.audit()
}

// update stores a pod that its test changed.
func (c *cluster) update(p *v1.Pod) {
	c.Helper()
	if err := c.api.Put(podPath, p.Namespace, p.Name, p); err != nil {
		c.Fatal(err)
	}
}

func faultName(f memapi.Fault) string {
	return []string{"none", "refused", "conflict", "internal", "lost before", "lost after", "timeout before", "timeout after", "late"}[f]
}
