package reconcile_test

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/engine/reconcile"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/unit"
)

// raise makes burst give the pod's group a larger quota than its own.
func (l *live) raise(quota unit.Micros) {
	l.Helper()
	raised := plan.Setting{
		Target: cgroupfile.Target(l.pod.Path(), cgroup.KnobMax), Value: plan.Value(cgroup.MaxValue(quota, period)),
		Owner: plan.OwnerBurst, Workload: "ns/sibling",
	}
	id, err := l.pod.Handle().ID(cgroup.CPU)
	must(l.T, err)
	raised.ID = cgroupfile.Identity(id)
	for _, r := range apply.New(cgroupfile.Kinds(l.host, nil), l.journal, apply.Options{}).Apply([]plan.Change{{Setting: raised, From: plan.Value(cgroup.MaxValue(2*period, period))}}) {
		must(l.T, r.Err)
	}
}

// The owner of an entry follows the desired setting. One group shrank to the pool and is now pinned to the CPUs that it
// was left with, and a pod's raised group is now unlimited.
func TestOwnerFollowsTheDesired(t *testing.T) {
	l := newLive(t)
	before := l.files()
	l.raise(3 * period)
	room := reconcile.Group{Group: l.c.Path(), CPUs: l.high, Workload: "ns/first"}
	l.reconciler.Want(reconcile.Of([]reconcile.Group{room}...))
	l.pass(0)
	l.reconciler.Want(reconcile.Of(l.pinned()...))
	l.pass(time.Second)
	for _, e := range l.journal.Entries() {
		if e.Target.Object != l.other.Path() && (e.Owner != plan.OwnerPlace || e.Workload != "ns/pod") {
			t.Errorf("entry %+v", e)
		}
	}
	l.reconciler.Want(nil)
	l.pass(time.Second)
	l.same(before)
	l.empty()
}

// Burst left a value behind and the kubelet then wrote another one. The new owner adopts the kubelet's value as the
// original and restores it.
func TestOwnerFollowsOverForeignValue(t *testing.T) {
	l := newLive(t)
	l.raise(4 * period)
	must(t, l.pod.SetMax(3*period, period)) // the kubelet's
	l.reconciler.Want(reconcile.Of(l.pinned()...))
	l.pass(0)
	l.has(l.pod, l.all, unit.NoLimit)
	l.reconciler.Want(nil)
	l.pass(time.Second)
	l.has(l.pod, l.all, 3*period)
	l.empty()
}

// If a group does not leave CPUs, the pods that own these CPUs get the event.
func TestNoRoomIsReported(t *testing.T) {
	l := newLive(t)
	must(t, l.other.SetCPUs(l.low))
	inner := l.sub(l.other, "inner")
	desired := []reconcile.Group{
		{Group: l.c.Path(), CPUs: l.low, Pinned: true, Workload: "ns/pod"},
		{Group: l.pod.Path(), NoQuota: true, Workload: "ns/pod"},
	}
	l.reconciler.Want(reconcile.Of(desired...)) // as a runtime does, which does not ask
	l.pass(0)
	l.reconciler.Want(reconcile.Of(append(desired, reconcile.Group{Group: inner.Path(), CPUs: l.high, Workload: "ns/pod"})...))
	var events []reconcile.Event
	for range 5 {
		events = append(events, l.try(2*time.Second).Events...)
	}
	if len(events) != 1 || events[0].Group != l.c.Path() || events[0].Reason != v1alpha1.EventCPUPinFailed || events[0].Workload != "ns/pod" {
		t.Fatalf("events %+v", events)
	}
	if !strings.Contains(events[0].Text, inner.Path()+" is on CPUs "+l.low.String()) {
		t.Errorf("%s", events[0].Text)
	}
}

// The originals of all groups are synced to disk once, before the first group is written.
func TestOneSyncForAll(t *testing.T) {
	l := newLive(t)
	before := l.files()
	alone := 0
	k := reconcile.New(reconcile.Options{
		Owners: []plan.Owner{plan.OwnerPlace, plan.OwnerPool}, Host: l.host, Journal: l.journal,
		Applier: apply.New(cgroupfile.Kinds(l.host, nil), l.journal, apply.Options{Step: func(s apply.Step, _ plan.Target) {
			switch s {
			case apply.StepBegun:
				alone++
			case apply.StepWritten:
				if n := len(l.journal.Entries()); n != 4 {
					t.Errorf("%d entries at a write, want 4", n)
				}
			default:
			}
		}}),
	})
	defer k.Close()
	k.Want(reconcile.Of(l.pinned()...))
	if r, _ := k.Pass(0); r.Writes != 4 || alone > 0 {
		t.Errorf("%d writes, %d originals journaled alone: %+v", r.Writes, alone, r)
	}
	k.Want(nil)
	k.Pass(time.Second)
	l.same(before)
	l.empty()
}

// A change that is not made leaves nothing in the journal.
func TestNothingOfWhatWasNotWritten(t *testing.T) {
	l := newLive(t)
	desired := l.pinned()
	cut := false
	k := reconcile.New(reconcile.Options{
		Owners: []plan.Owner{plan.OwnerPlace, plan.OwnerPool}, Host: l.host, Journal: l.journal,
		Applier: apply.New(cgroupfile.Kinds(l.host, nil), l.journal, apply.Options{Step: func(s apply.Step, _ plan.Target) {
			if s == apply.StepWritten && !cut {
				cut = true
				must(t, l.c.SetMax(period, period)) // between the check and its turn
			}
		}}),
	})
	defer k.Close()
	k.Want(reconcile.Of(desired...))
	k.Pass(0)
	if _, known := l.journal.Entry(cgroupfile.Target(l.c.Path(), cgroup.KnobMax)); known {
		t.Error("an entry for a value that had changed")
	}
	k.Pass(2 * time.Second)
	l.has(l.c, l.high, unit.NoLimit)
	k.Want(nil)
	k.Pass(3 * time.Second)
	l.has(l.c, l.all, period)
	l.empty()
}
