package reconcile_test

import (
	"testing"

	"github.com/berth-project/berth/internal/engine/reconcile"
	"github.com/berth-project/berth/internal/value/unit"
)

// crossed pins the container to the low CPU and puts the other group on the high one. Then it records the opposite as
// answers to the runtime, without a pass.
func crossed(t *testing.T) (*live, reconcile.Group) {
	t.Helper()
	l := newLive(t)
	l.reconciler.Want(reconcile.Of([]reconcile.Group{
		{Group: l.c.Path(), CPUs: l.low, Pinned: true, Workload: "ns/pod"},
		{Group: l.other.Path(), CPUs: l.high, Workload: "ns/pod"},
	}...))
	l.pass(0)
	moved := reconcile.Group{Group: l.c.Path(), CPUs: l.high, Pinned: true, Workload: "ns/pod"}
	must(t, l.reconciler.Record(reconcile.Of([]reconcile.Group{moved, {Group: l.other.Path(), CPUs: l.low, Workload: "ns/pod"}}...)))
	return l, moved
}

// A container that is about to run does not wait for a group that has already left, although no pass has seen that.
func TestUrgentAfterOthersLeft(t *testing.T) {
	l, moved := crossed(t)
	must(t, l.other.SetCPUs(l.low)) // the runtime's write of the answer
	l.reconciler.Urgent(moved.Group, reconcile.Of(moved))
	l.has(l.c, l.high, 2*period)
	if r := l.pass(0); r.Writes != 1 {
		t.Errorf("%d writes, want 1", r.Writes)
	}
}

// While other groups are still there, their CPUs are not given away. The pass that makes them leave is woken at once
// and also writes the urgent group.
func TestUrgentBeforeOthersLeave(t *testing.T) {
	l, moved := crossed(t)
	l.reconciler.Urgent(moved.Group, reconcile.Of(moved))
	l.has(l.c, l.low, 2*period)
	l.pass(0)
	l.has(l.c, l.high, 2*period)
	l.has(l.other, l.low, unit.NoLimit)
	l.reconciler.Want(nil)
	l.pass(0)
	l.empty()
}
