package reconcile_test

import (
	"testing"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/engine/reconcile"
	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/internal/value/unit"
)

// A resize in place changes the value to which a quota returns.
func TestResize(t *testing.T) {
	l := newLive(t)
	desired := l.pinned()
	desired[0].Limit = 2
	l.reconciler.Want(reconcile.Of(desired...))
	l.pass(0)
	must(t, l.c.SetMax(period, period)) // the kubelet's
	desired[0].Limit = 1
	l.reconciler.Want(reconcile.Of(desired...))
	l.pass(time.Second)
	l.has(l.c, l.high, unit.NoLimit)
	l.reconciler.Want(nil)
	l.pass(time.Second)
	l.has(l.c, l.all, period)
}

// At a resize the runtime writes Berth's answer, which has no quota. The new limit is therefore not visible in the
// group.
func TestResizeAnswered(t *testing.T) {
	l := newLive(t)
	desired := l.pinned()
	desired[0].Limit, desired[0].Made = 2, true
	l.reconciler.Want(reconcile.Of(desired...))
	l.pass(0)
	desired[0].Limit = 1
	l.reconciler.Want(reconcile.Of(desired...))
	if r := l.pass(time.Second); r.Writes != 0 {
		t.Errorf("%d writes", r.Writes)
	}
	l.reconciler.Want(nil)
	l.pass(time.Second)
	l.has(l.c, l.all, period)
}

// Without an answer, the quota appears first, is overwritten, and is confirmed by the specification later.
func TestResizeConfirmedLate(t *testing.T) {
	l := newLive(t)
	desired := l.pinned()
	desired[0].Limit = 2
	l.reconciler.Want(reconcile.Of(desired...))
	l.pass(0)
	must(t, l.c.SetMax(period, period))
	l.pass(15 * time.Second)
	l.has(l.c, l.high, unit.NoLimit)
	desired[0].Limit = 1
	l.reconciler.Want(reconcile.Of(desired...))
	l.pass(time.Second)
	must(t, l.c.SetMax(period, period)) // once more, within the minute
	l.pass(15 * time.Second)
	l.has(l.c, l.high, unit.NoLimit)
	l.reconciler.Want(nil)
	l.pass(time.Second)
	l.has(l.c, l.all, period)
}

// A limit from a file is not the group's own limit, so the group returns to its own.
func TestLimitOfAFile(t *testing.T) {
	l := newLive(t)
	before := l.files()
	desired := l.pinned()
	desired[0].Limit = 1 // the group has 2
	l.reconciler.Want(reconcile.Of(desired...))
	l.pass(0)
	l.reconciler.Touch(l.c.Path())
	must(t, l.c.SetMax(3*period/2, period)) // another writer's value, which is overwritten
	l.pass(time.Second)
	desired[0].Why = "again"
	l.reconciler.Want(reconcile.Of(desired...))
	l.pass(15 * time.Second)
	l.reconciler.Want(nil)
	l.pass(time.Second)
	l.same(before)
}

// The kubelet owns the quota of a pod. Its value is the new original, and Berth makes the group unlimited again however
// often the kubelet writes.
func TestResizePod(t *testing.T) {
	l := newLive(t)
	l.reconciler.Want(reconcile.Of(l.pinned()...))
	l.pass(0)
	for _, quota := range []unit.Micros{4 * period, 3 * period, 2 * period, 3 * period} {
		must(t, l.pod.SetMax(quota, period))
		if r := l.pass(15 * time.Second); r.Writes != 1 {
			t.Errorf("%d writes over the pod's quota, want 1", r.Writes)
		}
		l.has(l.pod, l.all, unit.NoLimit)
	}
	l.reconciler.Want(nil)
	l.pass(time.Second)
	l.has(l.pod, l.all, 3*period)
	l.empty()
}

// A new agent finds what the kubelet wrote while no agent ran.
func TestResizePodWithoutAgent(t *testing.T) {
	l := newLive(t)
	l.reconciler.Want(reconcile.Of(l.pinned()...))
	l.pass(0)
	must(t, l.pod.SetMax(4*period, period))
	l.start()
	l.reconciler.Want(reconcile.Of(l.pinned()...))
	l.pass(0)
	l.has(l.pod, l.all, unit.NoLimit)
	l.reconciler.Want(nil)
	l.pass(time.Second)
	l.has(l.pod, l.all, 4*period)
	l.empty()
}

// A resize right before the end leaves nothing behind.
func TestResizePodAtTheEnd(t *testing.T) {
	l := newLive(t)
	l.reconciler.Want(reconcile.Of(l.pinned()...))
	l.pass(0)
	must(t, l.pod.SetMax(4*period, period))
	l.reconciler.Want(nil)
	l.pass(time.Second)
	l.has(l.pod, l.all, 4*period)
	l.empty()
}

// Systemd and runtimes restore the same value without any intention, so that is not a conflict.
func TestPutBackIsNoConflict(t *testing.T) {
	l := newLive(t)
	l.reconciler.Want(reconcile.Of(l.pinned()...))
	l.pass(0)
	for range 3 {
		must(t, l.pod.SetMax(2*period, period))
		must(t, l.c.SetMax(2*period, period))
		if r := l.pass(15 * time.Second); r.Writes != 2 {
			t.Errorf("%d writes, want 2", r.Writes)
		}
		l.has(l.c, l.high, unit.NoLimit)
		l.has(l.pod, l.all, unit.NoLimit)
	}
}

// A container's quota that is neither its limit nor its original is a conflict.
func TestConflictForTheQuota(t *testing.T) {
	l := newLive(t)
	l.reconciler.Want(reconcile.Of(l.pinned()...))
	l.pass(0)
	must(t, l.c.SetMax(period/2, period))
	l.pass(15 * time.Second)
	must(t, l.c.SetMax(period/2, period))
	if r := l.try(15 * time.Second); len(r.Events) != 1 || r.Events[0].Reason != v1alpha1.EventHostDrift {
		t.Errorf("%+v", r)
	}
	l.has(l.c, l.high, period/2)
}

// A touched group is checked in the next pass and then every second for a while, because the kubelet writes the pod
// after its containers. Without a difference nothing is written.
func TestTouch(t *testing.T) {
	l := newLive(t)
	l.reconciler.Touch("unknown")
	l.reconciler.Want(reconcile.Of(l.pinned()...))
	l.pass(0)
	resized := func(g *scratch.Group) {
		t.Helper()
		must(t, g.SetMax(4*period, period))
		if r := l.pass(time.Second); r.Writes != 1 {
			t.Errorf("%d writes, want 1", r.Writes)
		}
	}
	must(t, l.pod.SetMax(3*period, period))
	if r := l.pass(time.Second); r.Writes != 0 {
		t.Errorf("%d writes to a settled group", r.Writes)
	}
	l.reconciler.Touch(l.pod.Path())
	if r := l.pass(0); r.Writes != 1 {
		t.Errorf("%d writes to a touched group", r.Writes)
	}
	l.pass(time.Second)
	resized(l.pod)
	for range 5 {
		l.pass(time.Second)
	}
	must(t, l.pod.SetMax(3*period, period))
	if r := l.pass(time.Second); r.Writes != 0 {
		t.Errorf("%d writes to a group that is settled again", r.Writes)
	}
}

// empty checks that the journal is empty.
func (l *live) empty() {
	l.Helper()
	if left := l.journal.Entries(); len(left) > 0 {
		l.Errorf("left: %v", left)
	}
}
