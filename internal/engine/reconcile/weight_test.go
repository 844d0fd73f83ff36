package reconcile

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/driver/systemd"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
)

// weighedHost is a unitHost whose systemd knows precedence.
type weighedHost struct {
	*unitHost

	old bool // systemd before 252, which has no idle units and leaves cpu.idle alone
}

// newWeighedHost returns a host with a unit that has a weight.
func newWeighedHost(t *testing.T, old bool) weighedHost {
	t.Helper()
	h := weighedHost{newUnitHost(t, "be.slice"), old}
	h.Write("sys/fs/cgroup/be.slice/cpu.weight", "79\n")
	h.Write("sys/fs/cgroup/be.slice/cpu.idle", "0\n")
	h.open(h)
	return h
}

// SetWeight acts as systemd and the kernel do: to idle and back, with the files in this order
// (cgroup_apply_unified_cpu_idle in systemd's source).
func (h weighedHost) SetWeight(unit string, v cgroup.Value) error {
	h.calls = append(h.calls, unit+" "+string(v))
	switch {
	case h.old && v == cgroup.Idle:
		return cgroupfile.ErrNoIdle
	case h.old: // the kernel refuses the weight while the group is idle
		return nil
	case v == cgroup.Idle:
		h.Write("sys/fs/cgroup/"+unit+"/cpu.idle", "1\n")
		h.Write("sys/fs/cgroup/"+unit+"/cpu.weight", "0\n")
		return nil
	}
	h.weigh(unit, string(v)[len("weight "):])
	return nil
}

// weigh acts as another program that gives a unit a weight.
func (h weighedHost) weigh(unit, weight string) {
	h.Write("sys/fs/cgroup/"+unit+"/cpu.idle", "0\n")
	h.Write("sys/fs/cgroup/"+unit+"/cpu.weight", weight+"\n")
}

// MayRecord reports, as Systemd does, that other programs record no precedence.
func (weighedHost) MayRecord(_ string, k cgroup.Knob) bool { return k.Controller() == cgroup.CPUSet }

// precedence returns the current precedence.
func (h weighedHost) precedence() plan.Value {
	h.t.Helper()
	stands := h.reconciler.opts.Applier.Read([]plan.Target{cgroupfile.UnitTarget("be.slice", cgroup.KnobPrecedence)})[0]
	if stands.Err != nil {
		h.t.Fatal(stands.Err)
	}
	return stands.Value
}

// idle is isolate's desired setting for a group whose owner may change the weight.
func idle(group string) []plan.Desired {
	return []plan.Desired{{
		Setting: plan.Setting{
			Target: cgroupfile.Target(group, cgroup.KnobPrecedence), Value: plan.Value(cgroup.Idle),
			Owner: plan.OwnerIsolate, Workload: "be", Why: "test",
		},
		Writers: plan.Writers{Owned: true},
	}}
}

// Systemd sets the precedence of a unit's group after the pass, and also restores it.
func TestWeightOfUnit(t *testing.T) {
	h := newWeighedHost(t, false)
	h.reconciler.Want(idle("be.slice"))
	if r := h.pass(); states(r) != "pending" {
		t.Errorf("before systemd was asked: %s", states(r))
	}
	h.asked("be.slice idle")
	if r := h.settles(); states(r) != "applied" || h.precedence() != plan.Value(cgroup.Idle) {
		t.Errorf("%s, stands at %q", states(r), h.precedence())
	}
	h.asked()
	h.reconciler.Want(nil)
	h.settles()
	if h.asked("be.slice weight 79"); h.precedence() != "weight 79" || h.originals() != "" {
		t.Errorf("stands at %q, entries %q", h.precedence(), h.originals())
	}
}

// A systemd before 252 has no idle units and leaves cpu.idle alone, so Berth writes the files.
func TestWeightOfOldSystemd(t *testing.T) {
	h := newWeighedHost(t, true)
	h.reconciler.Want(idle("be.slice"))
	if r := h.settles(); states(r) != "applied" || h.precedence() != plan.Value(cgroup.Idle) {
		t.Errorf("%s, stands at %q", states(r), h.precedence())
	}
	h.asked("be.slice idle")
	h.reconciler.Want(nil)
	h.settles()
	// A plain file retains what was written to it while the group was idle. The kernel would not.
	if h.asked("be.slice weight 79"); h.precedence() != "weight 79" || h.originals() != "" {
		t.Errorf("stands at %q, entries %q", h.precedence(), h.originals())
	}
}

// A weight that another program gives a group is its new original. Berth makes the group idle again once a minute. If
// the weight returns sooner, the group is left to the other program.
func TestWeightOfAnotherWriter(t *testing.T) {
	h := newWeighedHost(t, false)
	h.reconciler.Want(idle("be.slice"))
	h.settles()
	h.weigh("be.slice", "200")
	h.now += reassert
	if h.pass(); h.originals() != "be.slice weight 200" {
		t.Errorf("originals %q", h.originals())
	}
	if r := h.settles(); states(r) != "applied" || h.precedence() != plan.Value(cgroup.Idle) {
		t.Errorf("%s, stands at %q", states(r), h.precedence())
	}
	h.weigh("be.slice", "300")
	h.now += reassert
	r := h.pass()
	if states(r) != "conflict" || len(r.Events) != 1 || r.Events[0].Reason != "HostDrift" || h.originals() != "be.slice weight 300" {
		t.Errorf("%s, events %+v, originals %q", states(r), r.Events, h.originals())
	}
	if h.settles(); h.precedence() != "weight 300" {
		t.Errorf("stands at %q", h.precedence())
	}
	h.reconciler.Want(nil)
	if r := h.pass(); len(r.Events) > 0 || h.precedence() != "weight 300" || h.originals() != "" {
		t.Errorf("events %+v, stands at %q, entries %q", r.Events, h.precedence(), h.originals())
	}
}

// When nothing is desired any more, a weight that was written since the last check belongs to the owner.
func TestWeightAtTheEnd(t *testing.T) {
	h := newWeighedHost(t, false)
	h.reconciler.Want(idle("be.slice"))
	h.settles()
	h.weigh("be.slice", "200")
	h.reconciler.Want(nil)
	if r := h.settles(); len(r.Events) > 0 || h.precedence() != "weight 200" || h.originals() != "" {
		t.Errorf("events %+v, stands at %q, entries %q", r.Events, h.precedence(), h.originals())
	}
}

// A unit's group may lack the cpu controller until systemd is asked. It counts with the default weight, which is the
// original.
func TestWeightOfUnitWithoutController(t *testing.T) {
	h := newWeighedHost(t, false)
	h.Write("sys/fs/cgroup/be.slice/cgroup.controllers", "cpuset\n")
	for _, file := range []string{"cpu.weight", "cpu.idle"} {
		if err := os.Remove(h.Path("sys/fs/cgroup/be.slice", file)); err != nil {
			t.Fatal(err)
		}
	}
	h.reconciler.Want(idle("be.slice"))
	h.pass()
	h.asked("be.slice idle")
	if got := h.originals(); got != "be.slice weight 100" {
		t.Errorf("originals %q", got)
	}
}

// A precedence that the kernel refuses is reported for the group's own workload.
func TestWeightRefused(t *testing.T) {
	h := newWeighedHost(t, false)
	h.fails = errors.New("no such unit")
	h.open(failing{h})
	h.reconciler.Want(idle("be.slice"))
	var events []Event
	for range 8 {
		h.now += time.Second
		events = append(events, h.pass().Events...)
	}
	if len(events) != 1 || events[0].Reason != "IsolationLimited" || events[0].Workload != "be" {
		t.Errorf("%+v", events)
	}
}

// failing is a systemd that answers with an error.
type failing struct{ weighedHost }

func (h failing) SetWeight(string, cgroup.Value) error { return h.fails }

// A systemd behind an interface without precedence is reported as unavailable.
func TestWeightWithoutSystemd(t *testing.T) {
	h := newUnitHost(t, "be.slice")
	later := systemd.NewLater(h)
	later.AtOnce()
	if err := later.SetWeight("be.slice", cgroup.Idle); !errors.Is(err, cgroupfile.ErrNoUnits) {
		t.Errorf("%v", err)
	}
}

// The knobs of a group are checked in a fixed order, and every knob has a rank.
func TestKnobsInOrder(t *testing.T) {
	all := wanted{}
	for _, k := range []cgroup.Knob{
		cgroup.KnobIdentity, cgroup.KnobPrecedence, cgroup.KnobBurst, cgroup.KnobMax, cgroup.KnobMems, cgroup.KnobCPUs,
	} {
		all[k] = plan.Desired{}
		if rank(k) < 0 {
			t.Errorf("%s has no rank", k)
		}
	}
	if got := all.knobs(); !slices.IsSortedFunc(got, func(a, b cgroup.Knob) int { return rank(a) - rank(b) }) || got[0] != cgroup.KnobCPUs {
		t.Errorf("%v", got)
	}
}
