package cgroupfile_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

// A kernel that divides the burst at a write to cpu.max leaves Berth's own
// value, or the original, in another guise.
func TestDividedBurst(t *testing.T) {
	e := journal.Entry{
		Target: cgroupfile.Target("a", cgroup.KnobBurst), Original: "60000 100000", Previous: "60000 100000", Intent: "90999 100000",
	}
	kinds := cgroupfile.Values()
	for v, want := range map[plan.Value]bool{
		"60 100000": true, "90 100000": true, "180 200000": false, "181 200000": true, "120 200000": true,
		"0 100000": false, "61 100000": false, "59 100000": false, "90 70000": false, "nonsense": false,
	} {
		if e.IsOurs(kinds, v) != want || e.IsOriginal(kinds, v) {
			t.Errorf("IsOurs(%q) = %v", v, !want)
		}
	}
	e.Target.Knob = string(cgroup.KnobMax)
	if e.IsOurs(kinds, "60 100000") {
		t.Error("a divided quota counts as Berth's, and is another writer's")
	}
}

// The default weight of a group that Berth had idle is what a crash between its own two writes
// leaves. Of any other group it is another writer's, and so is any other weight.
func TestLeftByIdle(t *testing.T) {
	kinds := cgroupfile.Values()
	e := journal.Entry{Target: cgroupfile.Target("a", cgroup.KnobPrecedence), Original: "shares 512", Previous: "shares 512", Intent: "idle"}
	for v, want := range map[plan.Value]bool{"shares 1024": true, "weight 100": true, "idle": true, "shares 1000": false, "nonsense": false} {
		if e.IsOurs(kinds, v) != want {
			t.Errorf("IsOurs(%q) = %v", v, !want)
		}
	}
	e.Intent = "shares 2"
	if e.IsOurs(kinds, "shares 1024") {
		t.Error("the default weight of a group that was never idle counts as Berth's")
	}
	e.Target.Knob, e.Intent = string(cgroup.KnobIdentity), "-1"
	if !e.IsOurs(kinds, "-1") || e.IsOurs(kinds, "0") {
		t.Error("a Group Identity is Berth's when Berth wrote it")
	}
}

// A partition that the kernel does not keep is Berth's as far as its kind is: an undo ends it.
func TestInvalidPartition(t *testing.T) {
	e := journal.Entry{Target: cgroupfile.Target("a", cgroup.KnobPartition), Original: "member", Previous: "member", Intent: "isolated"}
	for v, want := range map[plan.Value]bool{
		"isolated": true, "isolated invalid (Cpu list in cpuset.cpus not exclusive)": true, "isolated invalid": true,
		"root": false, "root invalid (Parent is not a partition root)": false, "member": true,
	} {
		if e.IsOurs(cgroupfile.Values(), v) != want {
			t.Errorf("IsOurs(%q) = %v", v, !want)
		}
	}
}

// What the order of writes knows of a value.
func TestForms(t *testing.T) {
	low, _ := cpuset.Parse("0-1")
	limit := func(n, period unit.Micros) plan.Form {
		return plan.Form{Shape: plan.Limit, Tree: "cpu", Path: "a/b", N: n, Period: period}
	}
	burst := func(n, period unit.Micros) plan.Form {
		return plan.Form{Shape: plan.Burst, Tree: "cpu", Path: "a/b", N: n, Period: period}
	}
	list := func(tree string, set cpuset.Set, inherits bool) plan.Form {
		return plan.Form{Shape: plan.List, Tree: tree, Path: "a/b", Set: set, Inherits: inherits, Exclusive: tree == "cpuset.cpus"}
	}
	plain := plan.Form{Tree: "cpu", Path: "a/b", N: -1, Period: 1} // in any order
	for _, tt := range []struct {
		knob           cgroup.Knob
		from, to       plan.Value
		wantFrom, want plan.Form
	}{
		{cgroup.KnobMax, "200 1000", "max 1000", limit(200, 1000), limit(-1, 1000)},
		{cgroup.KnobMax, "400 2000", "300 1000", limit(400, 2000), limit(600, 2000)}, // at the period in force
		{cgroup.KnobMax, "400 3000", "300 1000", limit(400, 3000), limit(300, 1000)},
		{cgroup.KnobMax, "nonsense", "300 1000", limit(-1, 1), limit(300, 1000)},
		{cgroup.KnobBurst, "0 1000", "50 1000", burst(0, 1000), burst(50, 1000)},
		{cgroup.KnobCPUs, "inherit", "0-1", list("cpuset.cpus", cpuset.Set{}, true), list("cpuset.cpus", low, false)},
		{cgroup.KnobPrecedence, "idle", "shares 2", plain, plain},
		{cgroup.KnobMems, "0-1", "nonsense", list("cpuset.mems", low, false), list("cpuset.mems", cpuset.Set{}, true)},
	} {
		for _, target := range []plan.Target{cgroupfile.Target("a/b", tt.knob), cgroupfile.UnitTarget("a/b", tt.knob)} {
			forms := cgroupfile.Values()[target.Driver].Forms
			from, to := forms(plan.Change{From: tt.from, Setting: plan.Setting{Target: target, Value: tt.to}})
			if d := cmp.Diff([]plan.Form{tt.wantFrom, tt.want}, []plan.Form{from, to}, cmp.Comparer(func(a, b cpuset.Set) bool { return a == b })); d != "" {
				t.Errorf("%s: %s -> %s (-want +got):\n%s", target, tt.from, tt.to, d)
			}
		}
	}
}

func TestUnit(t *testing.T) {
	for target, want := range map[plan.Target]string{
		cgroupfile.UnitTarget("system.slice/redis.service", cgroup.KnobCPUs): "redis.service",
		cgroupfile.UnitTarget("_cpu.scope", cgroup.KnobCPUs):                 "cpu.scope",
		cgroupfile.Target("system.slice/redis.service", cgroup.KnobCPUs):     "",
	} {
		if got := cgroupfile.Unit(target); got != want {
			t.Errorf("the unit of %s %s is %q, want %q", target.Driver, target, got, want)
		}
	}
	asked, file := cgroupfile.UnitTarget("a.slice", cgroup.KnobCPUs), cgroupfile.Target("a.slice", cgroup.KnobCPUs)
	if asked == file || asked.Place() != file.Place() {
		t.Errorf("%v and %v are two ways to one place", asked, file)
	}
}

// TestNamesOfDrivers checks that the drivers retain the names that journals have.
func TestNamesOfDrivers(t *testing.T) {
	if cgroupfile.Driver != "cgroup" || cgroupfile.UnitDriver != "systemd" {
		t.Errorf("%q and %q are written in journals", cgroupfile.Driver, cgroupfile.UnitDriver)
	}
}
