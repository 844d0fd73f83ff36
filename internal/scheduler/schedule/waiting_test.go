package schedule

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The event that ends a wait may arrive while the pod is being refused: after the answer, but before the plugin has
// recorded that the pod waits.
func TestPodThatIsRefusedTooLate(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.bareNode("n1")
		c.settle()
		pod := c.pod("a", 4)
		c.look()
		state := newState()
		c.plugin.PreFilter(c.ctx, state, pod, nil)
		cy := cycleOf(state)
		status, reason := c.plugin.core.nodes.lock("n1").closed()
		c.plugin.core.nodes.find("n1").mu.Unlock()
		c.topology("n1", machine())
		c.expectActivated() // the pod does not wait yet
		c.plugin.refuse(cy, reason, status)
		c.expectActivated("default/a")
		// A cycle that begins later has missed no event.
		state = newState()
		c.plugin.PreFilter(c.ctx, state, pod, nil)
		c.plugin.refuse(cycleOf(state), reason, status)
		c.expectActivated()
	})
}

// A pod that was activated but not retried is activated again as long as it waits.
func TestCalledAgain(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		waits := &c.plugin.core.queue
		lost, hinted, never := c.spec("lost", 1), c.spec("hinted", 1), c.spec("never", 1)
		for _, pod := range []*v1.Pod{lost, hinted, never} {
			waits.note(pod, refusedByCPUs, 0)
		}
		waits.note(lost, refusedByTopology, 0)
		c.plugin.core.queue.activate(refusedByTopology)
		c.expectActivated("default/lost")
		waits.hinted(hinted.UID)
		time.Sleep(callAgain * lookEvery / 2)
		c.expectActivated()
		time.Sleep(callAgain * lookEvery)
		c.settle()
		c.expectActivated("default/hinted", "default/lost")
		waits.done(lost.UID)
		waits.done(hinted.UID)
		time.Sleep(2 * callAgain * lookEvery)
		c.settle()
		c.expectActivated()
	})
}

// A pod that is refused before its cycle reaches the plugin is activated at growing intervals.
func TestCalledAgainEverLess(t *testing.T) {
	var w queue
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a"}}
	w.note(pod, refusedByCPUs, 0)
	w.take(refusedByCPUs)
	var calls []int
	for look := 1; look <= 1500; look++ {
		if len(w.look()) > 0 {
			calls = append(calls, look)
		}
	}
	if want := []int{12, 36, 84, 180, 372, 672, 972, 1272}; !slices.Equal(calls, want) {
		t.Errorf("called at the looks %v, want %v", calls, want)
	}
	w.take(refusedByCPUs)
	for look := 1; look < callAgain; look++ {
		if len(w.look()) > 0 {
			t.Fatalf("called again after %d looks", look)
		}
	}
	if len(w.look()) != 1 {
		t.Error("what ends a wait does not begin again")
	}
}

// A pod that was deleted during its own cycle can be recorded after its end. The sweep forgets it.
func TestSweepForgetsPodsThatAreGone(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0,"maxPinnedCPUsPerNamespace":20}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		core, pod, stays := c.plugin.core, c.pod("a", 40), c.pod("b", 2)
		bad := c.pod("bad", 2, annotated("cpuset-scheduler", "yes"))
		c.remove(pod)
		c.remove(bad)
		for _, late := range []*v1.Pod{pod, stays} {
			core.queue.note(late, refusedByCPUs, 0)
		}
		core.invalid.first(bad, "text")
		late := c.spec("late", 4)
		late.Spec.NodeName = "n9"
		core.onPod(nil, late) // a late read of the API server
		if core.nodes.find("n9") == nil || core.usage.of("default", "") != 4 {
			t.Fatal("no record")
		}
		time.Sleep(2 * time.Minute)
		c.settle()
		if core.queue.size() != 1 || len(core.invalid.pods) != 0 {
			t.Errorf("%d pods wait and %d were reported, want 1 and 0", core.queue.size(), len(core.invalid.pods))
		}
		if core.nodes.find("n9") != nil {
			t.Error("a node is known of which nothing is")
		}
		if got := core.usage.of("default", ""); got != 0 {
			t.Errorf("%d CPUs count for no pod", got)
		}
	})
}

// In the cycle of a pod group, nodes change without a new generation.
func TestPodGroupOfOrdinaryPods(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		inGroup := func(pod *v1.Pod) *attempt {
			a := &attempt{state: newState(), pod: pod.DeepCopy(), refusals: map[string]int{}}
			a.state.group = true
			return c.choose(a)
		}
		a, b := c.ordinary("a", "20"), c.ordinary("b", "20")
		c.filter(b)
		c.reserve(inGroup(a))
		if second := inGroup(b); second.status.IsSuccess() {
			t.Error("40 of 32 CPUs in one group")
		}
		// The rehearsal is undone, and the generation stays the same.
		node := c.handle.snapshot["n1"]
		before := node.generation
		if err := node.RemovePod(c.plugin.core.background.log, a); err != nil {
			t.Fatal(err)
		}
		node.generation = before
		if after := c.choose(&attempt{state: newState(), pod: b, refusals: map[string]int{}}); !after.status.IsSuccess() {
			t.Errorf("after the group: %s", after.status.Message())
		}
	})
}

// A binding as reserved invalidates no answer.
func TestBindingForgetsNoAnswers(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		pod := c.pod("there", 4)
		a := c.reserve(c.filter(pod))
		other, ordinary := c.pod("a", 4), c.ordinary("o", "1")
		c.filter(other)
		c.filter(ordinary)
		n := c.plugin.core.nodes.find("n1")
		before, misses := n.left.Load(), n.memo.misses
		c.finish(a)
		if r := n.records[pod.UID]; r == nil || !r.confirmed {
			t.Fatal("the binding was not seen")
		}
		if before == nil || n.left.Load() != before || n.memo.results[0].Load() == nil || n.memo.misses != misses {
			t.Error("the binding makes all be worked out again")
		}
	})
}

// Most changes of a pod's status invalidate no answer, so nothing is computed again.
func TestStatusForgetsNoAnswers(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		there := c.pod("there", 4)
		c.placed(there)
		c.filter(c.pod("a", 4))
		n := c.plugin.core.nodes.find("n1")
		c.update(there, func(p *v1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: v1.PodReady, LastTransitionTime: metav1.Now()})
		})
		if n.memo.results[0].Load() == nil {
			t.Error("a pod that is ready now makes all be worked out again")
		}
		if r := n.records[there.UID]; r.pod.Status.Conditions[len(r.pod.Status.Conditions)-1].Type != v1.PodReady {
			t.Error("the record has an old pod")
		}
	})
}
