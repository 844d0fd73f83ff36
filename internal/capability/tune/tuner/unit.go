package tuner

import (
	"path"
	"strings"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/engine/driver"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/driver/thread"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// hierarchy is the mount of the control groups of units.
const hierarchy = "/sys/fs/cgroup/"

// target returns where a setting is written, and its value there.
func (h Host) target(s tune.Setting) (plan.Target, plan.Value, error) {
	if !s.OfGroup() {
		at, err := driver.Target(h.Root, s.File)
		return at, plan.Value(s.Write), err
	}
	if h.Groups == nil {
		return plan.Target{}, "", ErrNoUnits
	}
	group := path.Dir(s.File)
	if cpu, err := h.Groups.Hierarchy(cgroup.CPU); err == nil && cpu.Version == 1 { // it has its own mount
		group = strings.TrimPrefix(group, cpu.Mount+"/")
	}
	group = strings.TrimPrefix(group, hierarchy)
	list := cgroupfile.Target
	if h.Units != nil {
		list = cgroupfile.UnitTarget
	}
	switch s.Knob {
	case tune.Partition:
		if s.OwnSlice {
			return cgroupfile.SliceTarget(group), plan.Value(s.Write), nil
		}
		return cgroupfile.Target(group, cgroup.KnobPartition), plan.Value(s.Write), nil
	case tune.Exclusive:
		return cgroupfile.Target(group, cgroup.KnobExclusive), plan.Value(s.Write), nil
	case tune.UnitBudget:
		return cgroupfile.Target(group, cgroup.KnobRTRuntime), plan.Value(s.Write), nil
	case tune.UnitCPUs:
		return list(group, cgroup.KnobCPUs), plan.Value(s.Write), nil
	case tune.UnitMems:
		return list(group, cgroup.KnobMems), plan.Value(s.Write), nil
	case tune.UnitPolicy:
		return thread.PolicyTarget(group, s.Write), thread.All, nil
	default:
		return thread.SliceTarget(group, s.Write), thread.All, nil
	}
}

// Elsewhere returns how many bytes of a unit's movable memory are on other NUMA nodes than these. It returns 0 for less
// than 1 MiB, and if the kernel does not count them. file is the list of the unit's group. The count may be two seconds
// old.
func Elsewhere(host *knob.Host, file, nodes string) int64 {
	of, err := cpuset.Parse(nodes)
	memory, known := cgroup.ParseMemoryByNode([]byte(host.Text(path.Dir(file) + "/memory.numa_stat")))
	if err != nil || !known {
		return 0
	}
	return memory.Outside(of)
}

// verifyUnit compares one setting of a unit with its group or its threads. Threads with another policy or slice are
// drift: the unit was restarted, or another program changed them.
func verifyUnit(row tune.Verified, at plan.Target, host *knob.Host) tune.Verified {
	found := knob.Found{File: row.File, Support: knob.Settable, Now: host.Text(row.File)}
	made := func(knob.Found) string { return "" }
	switch row.Knob {
	case tune.UnitPolicy:
		found.Now = strings.Join(host.Policies(path.Dir(row.File)), ", ")
	case tune.UnitSlice:
		found.Now = strings.Join(host.Slices(path.Dir(row.File)), ", ")
	case tune.UnitBudget:
		found.Now = tune.BudgetText(found.Now)
	case tune.Partition:
		if driver.IsSlice(at) {
			found.Now = tune.SliceNow(row.File, host.Text)
		}
	case tune.Exclusive:
	default:
		made = func(knob.Found) string { return host.Text(row.File + ".effective") }
	}
	if !host.There(row.File) {
		return tune.Verify(row, nil, "", made)
	}
	row = tune.Verify(row, []knob.Found{found}, "", made)
	if row.Knob == tune.UnitMems && row.State == tune.OK {
		row.Elsewhere = Elsewhere(host, row.File, row.Want)
	}
	if _, invalid := cgroup.Value(row.Effective).Invalid(); invalid && row.Knob == tune.Partition {
		row.State = tune.Ignored
	}
	return row
}
