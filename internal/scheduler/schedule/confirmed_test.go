package schedule

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// An ambiguous bind can turn out to have gone through in the middle of the pod's next cycle. The pod keeps the CPUs
// that it is bound with: the new choice must not release them.
func TestReserveLeavesConfirmedRecord(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		first, pod := c.pod("first", 4), c.pod("a", 4)
		c.placed(first)
		var sent *v1.Binding
		c.fault = func(b *v1.Binding) (bool, error) { sent = b; return false, errors.New("EOF") }
		c.schedule(pod)
		c.fault = nil
		c.remove(first)
		again := c.filter(pod) // chooses the CPUs that the first pod left
		if err := c.carryOut(sent); err != nil {
			t.Fatal(err)
		}
		c.settle()
		if c.reserve(again); again.status.Code() != fwk.Unschedulable || again.status.Message() != textBound {
			t.Fatalf("Reserve of a pod that is bound: %s %q", again.status.Code(), again.status.Message())
		}
		c.placed(c.pod("b", 26))
		c.disjoint()
		if waits := c.plugin.core.queue.size(); waits != 0 {
			t.Errorf("%d pods wait, and all are bound", waits)
		}
	})
}

// The informer can show a pod as bound although its bind call failed, before the scheduler's cache contains the pod.
// Until then no ordinary pod may use its request. The event may arrive before or after the error.
func TestBoundPodThatNoSnapshotHasYet(t *testing.T) {
	for _, first := range []string{"error", "event"} {
		t.Run(first+" first", func(t *testing.T) { testUnseenBoundPod(t, first == "event") })
	}
}

func testUnseenBoundPod(t *testing.T, shown bool) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		pod, ordinary := c.pod("a", 28), c.ordinary("b", "6")
		c.look()
		var sent *v1.Binding
		c.fault = func(b *v1.Binding) (bool, error) {
			if sent = b; shown {
				if err := c.carryOut(b); err != nil {
					t.Error(err)
				}
				synctest.Wait()
			}
			return false, errors.New("EOF")
		}
		a := c.filterBehind(pod)
		c.reserve(a)
		c.finish(a)
		if !shown {
			if err := c.carryOut(sent); err != nil {
				t.Fatal(err)
			}
		}
		c.settle()
		if c.get(pod).Spec.NodeName == "" {
			t.Fatal("not bound")
		}
		for range 2 {
			if got := c.filterBehind(ordinary); got.status.IsSuccess() {
				t.Error("placed on CPUs that a bound pod requests")
			}
			c.update(pod, func(p *v1.Pod) { p.Labels = map[string]string{"changed": "1"} })
		}
		c.fault = nil
		c.remove(pod)
		c.placedOrdinary(ordinary)
	})
}

// The API server limits the total length of annotations when a pod is updated, but not when it is bound. A placement
// that exceeds the limit would make every later status update of the pod fail.
func TestNoRoomForPlacement(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		pod := c.pod("a", 4, annotated("example.com/notes", strings.Repeat("x", 256<<10-100)))
		a := c.refused(pod, "leave no room for the placement")
		if a.status.Code() != fwk.UnschedulableAndUnresolvable || c.requests != 0 {
			t.Errorf("code %s, %d bindings", a.status.Code(), c.requests)
		}
		c.placed(c.pod("b", 30))
		c.handle.tookActivated()
		c.update(pod, func(p *v1.Pod) { p.Annotations["example.com/notes"] = "short" })
		if got := c.handle.tookActivated(); !slices.Equal(got, []string{"default/a"}) {
			t.Errorf("activated %v when its annotations became shorter", got)
		}
	})
}
