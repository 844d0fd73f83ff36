package reconcile_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/engine/reconcile"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/proof/scratch"
)

// idle is isolate's desired setting for a group whose owner may change the weight.
func idle(g *scratch.Group) plan.Desired {
	return plan.Desired{
		Setting: plan.Setting{
			Target: cgroupfile.Target(g.Path(), cgroup.KnobPrecedence), Value: plan.Value(cgroup.Idle),
			Owner: plan.OwnerIsolate, Workload: "ns/be", Why: "offline",
		},
		Writers: plan.Writers{Owned: true},
	}
}

// weighing returns three weights of this host's cgroup version, the default weight first.
func (l *live) weighing() (normal, some, more cgroup.Value) {
	l.Helper()
	hier, err := l.host.Hierarchy(cgroup.CPU)
	must(l.T, err)
	if hier.Version == 1 {
		return cgroup.SharesValue(1024), cgroup.SharesValue(700), cgroup.SharesValue(900)
	}
	return cgroup.DefaultWeight, cgroup.WeightValue(70), cgroup.WeightValue(90)
}

// stands checks the precedence that the kernel has.
func (l *live) stands(g *scratch.Group, want cgroup.Value) {
	l.Helper()
	if got, err := g.Handle().Read(cgroup.KnobPrecedence); err != nil || got != want {
		l.Errorf("%s is %q, %v; want %q", g.Path(), got, err, want)
	}
}

// weigh acts as another program that gives an idle group a weight.
func (l *live) weigh(g *scratch.Group, v cgroup.Value) {
	l.Helper()
	must(l.T, g.SetPrecedence(v)) // ends idle
	must(l.T, g.SetPrecedence(v))
}

// A group is idle in addition to its CPU list, stays idle through an agent's death, and gets its weight back.
func TestIdleAndGiveBack(t *testing.T) {
	l := newLive(t)
	_, some, _ := l.weighing()
	must(t, l.pod.SetPrecedence(some))
	desired := append([]plan.Desired{idle(l.pod), idle(l.c)}, reconcile.Of(reconcile.Group{Group: l.c.Path(), CPUs: l.low, Workload: "ns/be"})...)
	l.reconciler.Want(desired)
	if r := l.pass(0); r.Writes != 3 {
		t.Errorf("%d writes, want 3", r.Writes)
	}
	l.stands(l.pod, cgroup.Idle)
	l.stands(l.c, cgroup.Idle)
	if r := l.pass(20 * time.Second); r.Writes != 0 {
		t.Errorf("%d writes to settled groups", r.Writes)
	}
	l.start()
	l.reconciler.Want(desired)
	if r := l.pass(0); r.Writes != 0 {
		t.Errorf("%d writes after a start", r.Writes)
	}
	l.reconciler.Want(nil)
	if r := l.pass(time.Second); r.Restored != 3 {
		t.Errorf("%d put back, want 3", r.Restored)
	}
	normal, _, _ := l.weighing()
	l.stands(l.pod, some)
	l.stands(l.c, normal)
	if n := len(l.journal.Entries()); n > 0 {
		t.Errorf("%d entries left", n)
	}
}

// The kernel refuses a weight for an idle group. If another program ends idle first, its weight is remembered as the
// original. If that happens again within a minute, the group is left to it.
func TestConflictOverPrecedence(t *testing.T) {
	l := newLive(t)
	normal, some, more := l.weighing()
	l.reconciler.Want([]plan.Desired{idle(l.pod)})
	l.pass(0)
	hier, err := l.host.Hierarchy(cgroup.CPU)
	must(t, err)
	file := map[int]string{1: "cpu.shares", 2: "cpu.weight"}[hier.Version]
	if err := os.WriteFile(filepath.Join(hier.Mount, l.pod.Path(), file), []byte("50"), 0o644); err == nil {
		t.Error("the kernel took a weight of an idle group")
	}
	l.weigh(l.pod, some)
	l.pass(15 * time.Second)
	l.stands(l.pod, cgroup.Idle)
	l.weigh(l.pod, more)
	r := l.try(15 * time.Second)
	if len(r.Events) != 1 || r.Events[0].Reason != "HostDrift" {
		t.Errorf("%+v", r.Events)
	}
	l.stands(l.pod, more)
	l.try(6 * time.Minute)
	l.stands(l.pod, cgroup.Idle)
	l.reconciler.Want(nil)
	l.pass(time.Second)
	l.stands(l.pod, more)

	// A program that only ends idle leaves the default weight, which nobody chose.
	must(t, l.pod.SetPrecedence(some))
	l.reconciler.Want([]plan.Desired{idle(l.pod)})
	l.pass(2 * time.Minute)
	must(t, l.pod.SetPrecedence(some))
	l.stands(l.pod, normal)
	l.pass(15 * time.Second)
	l.reconciler.Want(nil)
	l.pass(time.Second)
	l.stands(l.pod, some)
}
