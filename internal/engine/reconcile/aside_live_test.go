package reconcile_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/engine/reconcile"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// mems checks which memory nodes the container may use.
func (l *live) mems(want cpuset.Set) {
	l.Helper()
	got, err := l.c.Handle().EffectiveMems()
	must(l.T, err)
	if got != want {
		l.Errorf("it may use memory nodes %s, want %s", got, want)
	}
}

// A pass does not wait for memory nodes. The group is pending until the kernel has accepted them, or while an obstacle
// exists, and no failure is reported. The original is restored without a wait in a pass too.
func TestMemsAreWrittenBesideThePass(t *testing.T) {
	l := newLive(t)
	if l.allMems.Size() < 2 {
		t.Skip("one NUMA node; runs in the VM: make vm")
	}
	inTheWay := errors.New("a policy would be rebound")
	aside := cgroupfile.NewAside(func(group string, _ cpuset.Set) error {
		if group != l.c.Path() {
			t.Errorf("asked about %s", group)
		}
		return inTheWay
	})
	l.kinds = aside.Kinds(l.host, nil)
	l.start()
	l.sleeper()
	first, _ := l.allMems.Min()
	one := cpuset.Set{}.Add(first)
	l.reconciler.Want(reconcile.Of(reconcile.Group{Group: l.c.Path(), CPUs: l.high, Mems: one, Pinned: true, Workload: "ns/pod"}))
	// is makes a pass and checks the state of the group.
	is := func(want reconcile.State, why string) {
		t.Helper()
		r := l.try(time.Second)
		if len(r.Groups) != 1 || r.Groups[0].State != want || !strings.Contains(r.Groups[0].Reason, why) || len(r.Errors)+len(r.Events) > 0 {
			t.Errorf("%+v, want %s: %s", r, want, why)
		}
	}
	is(reconcile.StatePending, "a policy would be rebound")
	is(reconcile.StatePending, "a policy would be rebound")
	aside.Wait()
	l.mems(l.allMems)
	if cpus, err := l.c.Handle().EffectiveCPUs(); err != nil || cpus != l.high {
		t.Errorf("its CPUs wait for its memory nodes: %s, %v", cpus, err)
	}

	inTheWay = nil
	is(reconcile.StatePending, "the kernel moves pages")
	aside.Wait()
	is(reconcile.StateApplied, "")
	l.mems(one)
	if e, known := l.journal.Entry(cgroupfile.Target(l.c.Path(), cgroup.KnobMems)); !known || e.Intent != plan.Value(one.String()) {
		t.Errorf("the journal has %+v, %v", e, known)
	}

	l.start() // an agent after a crash finds everything as it is
	l.reconciler.Want(reconcile.Of(reconcile.Group{Group: l.c.Path(), CPUs: l.high, Mems: one, Pinned: true, Workload: "ns/pod"}))
	is(reconcile.StateApplied, "")
	l.reconciler.Want(nil)
	l.try(time.Second)
	aside.Wait()
	l.try(time.Second)
	l.mems(l.allMems)
	if left := l.journal.Entries(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
