package schedule

import (
	"errors"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// A pod whose ambiguous binding turns out to have gone through, in the middle of
// its next cycle, keeps the CPUs it is bound with: another choice for it must not
// set them free.
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
		again := c.filter(pod) // would have the CPUs that the first one left
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

// An API server checks the length of all annotations together when a pod is
// updated, and not when it is bound: with too many of them the status of the pod
// could never be written again.
func TestNoRoomForPlacement(t *testing.T) {
	for _, mode := range []string{"Binding", "Patch"} {
		inCluster(t, `{"staleAfterSeconds":0,"bindMode":"`+mode+`"}`, func(t *testing.T, c *cluster) {
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
}
