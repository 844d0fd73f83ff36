package apply_test

import (
	"errors"
	"testing"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/hostwrite"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/proof/scratch"
)

// weights returns a low, a middle and the default weight of this host's cgroup version.
func weights(t *testing.T, host *cgroup.Host) (low, middle, normal cgroup.Value) {
	t.Helper()
	hier, err := host.Hierarchy(cgroup.CPU)
	must(t, err)
	if hier.Version == 1 {
		return cgroup.SharesValue(2), cgroup.SharesValue(700), cgroup.SharesValue(1024)
	}
	return cgroup.WeightValue(1), cgroup.WeightValue(70), cgroup.DefaultWeight
}

func precede(group string, v cgroup.Value) plan.Setting {
	return plan.Setting{
		Target: cgroupfile.Target(group, cgroup.KnobPrecedence), Value: plan.Value(v), Owner: "isolate", Workload: "w", Why: "test",
	}
}

// newWeighed returns a tree in which top has the default weight, a has its own weight, and b is idle.
func newWeighed(t *testing.T) *live {
	l := newLive(t)
	_, middle, _ := weights(t, l.host)
	must(t, l.a.SetPrecedence(middle))
	must(t, l.b.SetPrecedence(cgroup.Idle))
	return l
}

// precedences returns successive settings: idle groups get weights, groups with weights become idle, also with the
// default weight, and then the reverse.
func precedences(top string, low, middle, normal cgroup.Value) [][]plan.Setting {
	a, b := top+"/a", top+"/b"
	return [][]plan.Setting{
		{precede(top, cgroup.Idle), precede(a, cgroup.Idle), precede(b, middle)},
		{precede(top, low), precede(a, low), precede(b, normal)},
		{precede(a, cgroup.Idle), precede(b, cgroup.Idle)},
		{precede(top, cgroup.Idle), precede(b, low)},
	}
}

func TestPrecedenceApplyAndRestore(t *testing.T) {
	l := newWeighed(t)
	before := l.files()
	a := apply.New(cgroupfile.Kinds(l.host, nil), openJournal(t, t.TempDir()), apply.Options{})
	low, middle, normal := weights(t, l.host)
	for i, settings := range precedences(l.top.Path(), low, middle, normal) {
		for _, r := range a.Apply(changes(t, l.host, settings...)) {
			if r.Err != nil || !r.Wrote || r.Effective != r.Change.Value {
				t.Fatalf("%d: %+v", i, r)
			}
		}
	}
	for _, r := range a.Restore(nil, false) {
		if r.Err != nil || r.Outcome != apply.OutcomeRestored {
			t.Errorf("%+v", r)
		}
	}
	l.same(before)
}

// Another writer that ends idle and sets a weight is left alone. A writer whose weight the kernel refuses changes
// nothing.
func TestPrecedenceOfAnotherWriter(t *testing.T) {
	l := newWeighed(t)
	low, middle, _ := weights(t, l.host)
	a := apply.New(cgroupfile.Kinds(l.host, nil), openJournal(t, t.TempDir()), apply.Options{})
	l.applied(a, precede(l.a.Path(), cgroup.Idle))
	must(t, setTwice(l.a, low))
	restored(t, a, "drifted")
	if v := value(t, l.host, precede(l.a.Path(), "").Target); v != plan.Value(low) {
		t.Errorf("the other writer's weight became %s", v)
	}
	must(t, l.a.SetPrecedence(middle))
	restored(t, a, "already")
}

// setTwice acts as a writer that ends idle and then sets a weight.
func setTwice(g *scratch.Group, v cgroup.Value) error {
	return errors.Join(g.SetPrecedence(v), g.SetPrecedence(v))
}

// A knob that this kernel lacks is refused, and nothing is written.
func TestIdentityWithoutAlibaba(t *testing.T) {
	l := newLive(t)
	dir, err := l.a.Handle().Dir(cgroup.CPU)
	must(t, err)
	if err := hostwrite.Existing(dir, "cpu.bvt_warp_ns", "0"); err == nil {
		t.Fatal("this kernel has Group Identity: hold the knob against it")
	}
	before := l.files()
	a := apply.New(cgroupfile.Kinds(l.host, nil), openJournal(t, t.TempDir()), apply.Options{})
	s := precede(l.a.Path(), "-1")
	s.Knob, s.ID = string(cgroup.KnobIdentity), identity(t, l.host, l.a.Path())
	if r := a.Apply([]plan.Change{{Setting: s, From: "0"}})[0]; !errors.Is(r.Err, cgroup.ErrNoKnob) || r.Wrote {
		t.Errorf("%+v", r)
	}
	l.same(before)
}

// The process is killed between every two steps, also between the two writes from idle to a weight. A rollback in
// another process restores every byte.
func TestCrashBetweenPrecedenceSteps(t *testing.T) {
	l := newWeighed(t)
	l.crashes("precedence", 50, l.files)
}
