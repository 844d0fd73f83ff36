package reconcile_test

import (
	"testing"

	"github.com/berth-project/berth/internal/reconcile"
	"github.com/berth-project/berth/internal/unit"
)

// crossed has the container pinned to the low CPU and the other group on the high one,
// and then, without a pass, both answered to the runtime the other way round.
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

// A container that is about to run does not wait for a group that has left already, though
// no pass has seen it go.
func TestUrgentAfterOthersLeft(t *testing.T) {
	l, moved := crossed(t)
	must(t, l.other.SetCPUs(l.low)) // the runtime's, as it was answered
	l.reconciler.Urgent(moved.Group, reconcile.Of(moved))
	l.has(l.c, l.high, 2*period)
	if r := l.pass(0); r.Writes != 1 {
		t.Errorf("%d writes, want 1", r.Writes)
	}
}

// Where others are still there, their CPUs are not given away, and the pass that makes them
// leave, which was woken at once, takes the urgent group, too.
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
