package reconcile

import (
	"errors"
	"slices"
	"testing"

	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
)

// weighedHost is a unitHost whose systemd knows precedence.
type weighedHost struct{ *unitHost }

// SetWeight is what systemd and the kernel do: to idle and back, with the files in this order
// (cgroup_apply_unified_cpu_idle in systemd's source).
func (h weighedHost) SetWeight(unit string, v cgroup.Value) error {
	h.calls = append(h.calls, unit+" "+string(v))
	if v == cgroup.Idle {
		h.write("sys/fs/cgroup/"+unit+"/cpu.idle", "1\n")
		h.write("sys/fs/cgroup/"+unit+"/cpu.weight", "0\n")
		return nil
	}
	h.write("sys/fs/cgroup/"+unit+"/cpu.idle", "0\n")
	h.write("sys/fs/cgroup/"+unit+"/cpu.weight", string(v)[len("weight "):]+"\n")
	return nil
}

// MayRecord says, as Systemd does, that no precedence is recorded by others.
func (weighedHost) MayRecord(_ string, k cgroup.Knob) bool { return k.Controller() == cgroup.CPUSet }

// The precedence of a unit's group goes through systemd, asked after the pass, and so does the
// way back.
func TestWeightOfUnit(t *testing.T) {
	h := weighedHost{newUnitHost(t, "be.slice")}
	h.write("sys/fs/cgroup/be.slice/cpu.weight", "79\n")
	h.write("sys/fs/cgroup/be.slice/cpu.idle", "0\n")
	root, err := hostfs.Open(h.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	host, err := cgroup.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	j, err := journal.Open(t.TempDir(), "boot", cgroupfile.Values())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	later := NewLater(h)
	a := apply.New(cgroupfile.Kinds(host, later), j, apply.Options{Records: true})
	target := cgroupfile.UnitTarget("be.slice", cgroup.KnobPrecedence)
	stands := func() apply.Standing { return a.Read([]plan.Target{target})[0] }
	idle := func() apply.Result {
		now := stands()
		return a.Apply([]plan.Change{{
			Setting: plan.Setting{Target: target, ID: now.ID, Value: plan.Value(cgroup.Idle), Owner: "isolate", Workload: "be", Why: "test"}, From: now.Value,
		}})[0]
	}
	if r := idle(); !errors.Is(r.Err, apply.ErrDeferred) || len(h.calls) > 0 {
		t.Fatalf("%v, asked %q", r.Err, h.calls)
	}
	for _, ask := range later.Take() {
		later.Do(ask)
	}
	if r := idle(); r.Err != nil || stands().Value != plan.Value(cgroup.Idle) {
		t.Fatalf("%v, stands at %q", r.Err, stands().Value)
	}
	later.AtOnce()
	for _, r := range a.Restore(nil, false) {
		if r.Err != nil || r.Outcome != apply.OutcomeRestored {
			t.Errorf("%+v", r)
		}
	}
	if want := []string{"be.slice idle", "be.slice weight 79"}; !slices.Equal(h.calls, want) || stands().Value != "weight 79" {
		t.Errorf("asked %q, want %q; stands at %q", h.calls, want, stands().Value)
	}
	if len(j.Entries()) != 0 {
		t.Errorf("entries left: %v", j.Entries())
	}
}

// A systemd behind an interface without precedence is said to be out of reach.
func TestWeightWithoutSystemd(t *testing.T) {
	h := newUnitHost(t, "be.slice")
	later := NewLater(h)
	later.AtOnce()
	if err := later.SetWeight("be.slice", cgroup.Idle); !errors.Is(err, cgroupfile.ErrNoUnits) {
		t.Errorf("%v", err)
	}
}
