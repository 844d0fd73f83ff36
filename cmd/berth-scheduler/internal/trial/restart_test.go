package trial

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-project/berth/cmd/berth-scheduler/internal/memapi"
)

// TestRestart checks that a restarted scheduler learns from the stored pods alone which CPUs are assigned.
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

// TestDeathInBind checks the death of a scheduler while its binding is on the way. Whether or not the binding took
// effect, the next scheduler gives no CPU twice and binds both pods.
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

// TestBindFaults lets each kind of binding fail once. In the end the pod is bound, no CPU is given twice, and no CPU
// stays reserved for a pod that is gone.
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

// TestAmbiguousBindingKeepsCPUs checks that the CPUs of an ambiguous bind go to no other pod while its outcome is
// unknown. The CPUs become free once the binding is known not to have taken effect.
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
	c.cordon("n0", true) // no reservation of a holds its CPUs any more
	c.until("a waits", func() bool { return strings.Contains(why(c.pod("a")), "unschedulable") })
	b := pinned("b", 1, 4)
	b.Spec.Tolerations = []v1.Toleration{{Key: v1.TaintNodeUnschedulable, Operator: v1.TolerationOpExists}}
	c.create(b)
	c.pending("b")
	c.api.Remove(podPath, "default", "a")
	c.bound("b")
	c.cordon("n0", false)
	c.create(pinned("c", 1, 18))
	c.bound("c")
	c.audit()
}

// cordon makes a node unschedulable, or schedulable again.
func (c *cluster) cordon(name string, closed bool) {
	c.Helper()
	n := node(name, small().cpus())
	n.Spec.Unschedulable = closed
	c.addNode(n)
}

// TestBoundElsewhere covers a binding to n0 that takes effect although its answer is lost. The scheduler does not see
// the pod bound yet and binds it to n1, which fails. Then the scheduler must release the pod's CPUs on n1.
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
			c.cordon("n0", true)
			c.addMachine("n1", small())
			return memapi.LostAfter
		case 2:
			c.api.Mute(podPath, false)
			time.Sleep(200 * time.Millisecond) // the scheduler sees the pod on n0
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

// TestRuleHoldsFromTheStart checks that the accounting rule applies to the first pod that a restarted scheduler binds,
// even if the scheduler learns the nodes' topologies late.
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

// TestDeletedWhileBinding covers a pod that is deleted and created again under the same name while its binding is on
// the way. The second pod is another pod: it gets its own placement.
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

// TestAPIServerAway checks that scheduling continues after the API server was unreachable for a while, and that no CPU
// is given twice.
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

// TestForeignPodIsAdopted covers a pod that another scheduler bound without a placement. The pod counts with unknown
// CPUs until its agent writes which CPUs it has.
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

// update stores a pod that the test changed.
func (c *cluster) update(p *v1.Pod) {
	c.Helper()
	if err := c.api.Put(podPath, p.Namespace, p.Name, p); err != nil {
		c.Fatal(err)
	}
}

func faultName(f memapi.Fault) string {
	return []string{"none", "refused", "conflict", "internal", "lost before", "lost after", "timeout before", "timeout after", "late"}[f]
}
