package schedule

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/placement"
)

// The API server may carry out a second ambiguous bind after the first one can no longer take effect. The CPUs stay
// held until the second bind has expired too.
func TestSecondAmbiguousBindOutlivesFirst(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		pod := c.pod("a", 30)
		var late []func() error
		c.fault = func(b *v1.Binding) (bool, error) {
			late = append(late, func() error { return c.carryOut(b) })
			return false, errors.New("EOF")
		}
		c.schedule(pod)
		time.Sleep(60 * time.Second)
		c.schedule(pod)
		c.fault = nil
		time.Sleep(20 * time.Second)
		c.refused(c.pod("b", 30), "")
		if err := late[1](); err != nil {
			t.Fatal(err)
		}
		c.settle()
		c.disjoint()
	})
}

// Two ambiguous binds of one pod can name different CPUs. The node holds the CPUs of both.
func TestAmbiguousBindsOfDifferentCPUs(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		pod := c.pod("a", 4)
		c.fault = func(*v1.Binding) (bool, error) { return false, errors.New("EOF") }
		c.schedule(pod)
		time.Sleep(60 * time.Second)
		c.update(pod, func(p *v1.Pod) { p.Annotations[resourceSpec] = `{"preferredCPUBindPolicy":"SpreadByPCPUs"}` })
		c.schedule(c.get(pod))
		c.fault = nil
		n := c.plugin.core.nodes.find("n1")
		held := func() int {
			n.mu.Lock()
			defer n.mu.Unlock()
			return len(n.ambiguous)
		}
		if many := held(); many != 2 {
			t.Fatalf("%d ambiguous binds", many)
		}
		if a := c.filter(c.ordinary("o", "28")); !a.status.IsSuccess() {
			t.Errorf("28 of 32 CPUs beside two ambiguous binds of 4: %s", a.status.Message())
		}
		time.Sleep(20 * time.Second)
		c.settle()
		if many := held(); many != 1 {
			t.Errorf("%d ambiguous binds are left of 2 of which one is over", many)
		}
		time.Sleep(2 * requestTimeout)
		c.settle()
		if many := held(); many != 0 {
			t.Errorf("%d ambiguous binds are left", many)
		}
	})
}

// Two ambiguous binds of one pod can name the same CPUs and different memory. The node holds the CPUs once, and the memory
// of both: the later bind may be the one that is carried out.
func TestAmbiguousBindsOfDifferentMemory(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		fills := func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Requests[v1.ResourceMemory] = resource.MustParse("60Gi")
		}
		filler := c.ordinary("filler", "1")
		c.update(filler, fills)
		c.placedOrdinary(c.get(filler))
		pod, made := c.pod("a", 4, memory("40Gi", "")), []string{}
		c.fault = func(b *v1.Binding) (bool, error) {
			made = append(made, b.Annotations[v1alpha1.AnnotationPlacement])
			return false, errors.New("EOF")
		}
		c.schedule(pod)
		c.remove(filler)
		c.schedule(pod)
		c.fault = nil
		wide, narrow := mustPlace(t, made[0]), mustPlace(t, made[1])
		if wide.CPUs != narrow.CPUs || wide.Mems != "0-1" || narrow.Mems != "0" {
			t.Fatalf("the tries name %+v and %+v", wide, narrow)
		}
		n := c.plugin.core.nodes.find("n1")
		if o := n.beside("", &placement.Held{}, (*record).holds); len(n.ambiguous) != 2 || o.Unknown != 0 {
			t.Errorf("%d ambiguous binds, %d unknown CPUs", len(n.ambiguous), o.Unknown)
		}
		other := c.pod("b", 2, memory("30Gi", ""))
		c.placed(other)
		if mems := memsOf(t, c, other); mems != "1" {
			t.Errorf("30 GiB beside an ambiguous bind of 40 GiB to NUMA node 0 may come from %s", mems)
		}

		c.remove(other)
		refill := c.ordinary("refill", "1")
		c.update(refill, fills)
		c.placedOrdinary(c.get(refill))
		again := c.reserve(c.filter(pod)) // the same CPUs, and memory of both NUMA nodes again
		late := c.pod("c", 2, memory("5Gi", ""))
		c.placed(late)
		if mems := memsOf(t, c, late); mems != "1" {
			t.Errorf("5 GiB beside the same and a reservation may come from %s", mems)
		}
		if c.finish(again); !again.status.IsSuccess() {
			t.Error(again.status.Message())
		}
		if len(n.ambiguous) != 0 {
			t.Errorf("%d ambiguous binds of a bound pod", len(n.ambiguous))
		}
	})
}

// mustPlace returns what a placement says of the container of the tests.
func mustPlace(t *testing.T, annotation string) v1alpha1.ContainerPlacement {
	t.Helper()
	placed, problems := v1alpha1.DecodePlacement(annotation)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return placed.Containers["app"]
}

// A binding may wait in the client's rate limit before it is sent. The time in which the API server may still carry it
// out begins when the request fails, not when the scheduler issued it.
func TestBindingThatWaitedToBeSent(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		pod, late := c.pod("a", 30), func() error { return nil }
		c.fault = func(b *v1.Binding) (bool, error) {
			time.Sleep(100 * time.Second) // the client's rate limit
			late = func() error { return c.carryOut(b) }
			return false, errors.New("EOF")
		}
		c.schedule(pod)
		c.fault = nil
		time.Sleep(30 * time.Second)
		c.refused(c.pod("b", 30), "")
		if err := late(); err != nil {
			t.Fatal(err)
		}
		c.settle()
		c.disjoint()
	})
}

// Repeated ambiguous binds of one pod hold its CPUs once, not once per attempt.
func TestAmbiguousBindsDoNotAddUp(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		shares, pinned := c.ordinary("o", "4"), c.pod("a", 4, requesting("1"))
		c.fault = func(*v1.Binding) (bool, error) { return false, errors.New("EOF") }
		for range 8 {
			c.schedule(shares)
			c.schedule(pinned)
			time.Sleep(4 * time.Second)
		}
		c.fault = nil
		if a := c.filter(c.ordinary("p", "24")); !a.status.IsSuccess() {
			t.Errorf("24 of 32 CPUs refused beside two pods of 4: %s", a.status.Message())
		}
		c.refused(c.ordinary("q", "25"), textPromised)
	})
}

// A refused connection proves that nothing was sent, so the scheduler holds nothing for an ordinary pod.
func TestOrdinaryPodAndAPIServerAway(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		away := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
		c.fault = func(*v1.Binding) (bool, error) { return false, away }
		c.schedule(c.ordinary("o", "20"))
		c.fault = nil
		if a := c.schedule(c.ordinary("p", "20")); !a.status.IsSuccess() {
			t.Error(a.status.Message())
		}
	})
}

// A binding fails because the pod is being deleted, or an earlier one went through, to another node. It takes no effect
// any more, and counts nowhere.
func TestBindingThatTakesNoEffect(t *testing.T) {
	for what, change := range map[string]func(*v1.Pod){
		"elsewhere": func(p *v1.Pod) { p.Spec.NodeName = "n2" },
		"deleted":   func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} },
	} {
		inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
			c.node("n1")
			pod := c.ordinary("o", "20")
			a := c.reserve(c.filter(pod))
			c.update(pod, change)
			if c.finish(a); a.status.IsSuccess() {
				t.Fatal(what, ": the pod was bound")
			}
			if _, ambiguous := c.plugin.core.flights.size(); ambiguous != 0 {
				t.Errorf("%s: %d ambiguous binds", what, ambiguous)
			}
			if a := c.filter(c.ordinary("p", "32")); !a.status.IsSuccess() {
				t.Errorf("%s: 32 CPUs on an empty node: %s", what, a.status.Message())
			}
		})
	}
}

// A read of the API server may show a binding long before the informer does. Other pods must not get those CPUs.
func TestInformerBehindLook(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		pod := c.pod("a", 30)
		bound := c.get(pod).DeepCopy()
		bound.Spec.NodeName = "n1"
		bound.Annotations[v1alpha1.AnnotationPlacement] = `{"v":1,"topology":"` + machine().Hash() +
			`","containers":{"app":{"cpus":"0-29","mems":"0-1","policy":"exclusive"}}}`
		a := c.reserve(c.filter(pod))
		c.filter(c.ordinary("o", "1")) // a snapshot that contains the assumed pod
		c.giveUp(a)
		c.plugin.core.take(nil, bound, true)
		for _, other := range []*v1.Pod{c.pod("b", 30), c.ordinary("p", "30")} {
			if a := c.filter(other); a.status.IsSuccess() {
				t.Errorf("pod %s finds room beside one of 30 CPUs that is bound", other.Name)
			}
		}
		time.Sleep(5 * time.Minute)
		if a := c.filter(c.pod("d", 30)); a.status.IsSuccess() {
			t.Error("the sweep dropped a bound pod, because the informer is behind")
		}
	})
}

// A read of the API server may be older than what the informer shows by the time it returns. The later state counts.
func TestLookBehindInformer(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		pod := c.ordinary("o", "10")
		c.placedOrdinary(pod)
		old := c.get(pod).DeepCopy()
		c.update(pod, requesting("20"))
		c.client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, old, nil })
		c.plugin.core.lookAt(c.ctx, &ambiguousBind{uid: pod.UID, namespace: pod.Namespace, name: pod.Name, node: "n1"})
		if sum := c.plugin.core.nodes.sums.nodes["n1"].milli; sum != 20000 {
			t.Errorf("the pod counts with %dm of 20000m", sum)
		}
	})
}

// A pod may end after a look read it from the store of the informer: no later event would take its request back.
func TestLookAtPodThatEnds(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		pod := c.ordinary("o", "10")
		c.placedOrdinary(pod)
		c.plugin.core.nodes.sums.drop(c.get(pod)) // as its last event does
		c.plugin.core.lookAt(c.ctx, &ambiguousBind{uid: pod.UID, namespace: pod.Namespace, name: pod.Name, node: "n1"})
		if left := c.plugin.core.nodes.sums.nodes["n1"]; left != nil {
			t.Errorf("the pod counts with %dm after its end", left.milli)
		}
	})
}

// fakeCalls is an APICacher whose binding calls return err.
type fakeCalls struct {
	fwk.APICacher
	c     *cluster
	err   error
	bound []types.UID
}

func (f *fakeCalls) BindPod(b *v1.Binding) (<-chan error, error) {
	f.bound = append(f.bound, b.UID)
	finished := make(chan error, 1)
	if f.err == nil {
		finished <- f.c.carryOut(b)
	} else {
		finished <- f.err
	}
	return finished, nil
}

func (f *fakeCalls) WaitOnFinish(_ context.Context, finished <-chan error) error { return <-finished }

// When the scheduler queues its API calls, the plugin queues the bindings of pinned and of ordinary pods too.
func TestBindingsAreQueued(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		calls := &fakeCalls{c: c, err: errors.New("EOF")}
		c.handle.calls = calls
		pods := []*v1.Pod{c.pod("a", 4), c.ordinary("o", "4")}
		for _, pod := range pods {
			c.schedule(pod)
		}
		if _, ambiguous := c.plugin.core.flights.size(); ambiguous != 2 {
			t.Errorf("%d ambiguous binds, want 2", ambiguous)
		}
		calls.err = nil
		for _, pod := range pods {
			if a := c.schedule(pod); !a.status.IsSuccess() || c.get(pod).Spec.NodeName != "n1" {
				t.Errorf("pod %s: %s", pod.Name, a.status.Message())
			}
		}
		if len(calls.bound) != 4 || c.requests != 0 {
			t.Errorf("%d calls queued and %d sent, want 4 and none", len(calls.bound), c.requests)
		}
	})
}
