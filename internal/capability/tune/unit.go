package tune

import (
	"fmt"
	"strings"

	"github.com/berth-project/berth/internal/capability/tune/profile"
	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/internal/value/table"
)

// The knobs of units.
const (
	UnitCPUs   = "unit.cpus"
	UnitMems   = "unit.mems"
	UnitPolicy = "unit.policy"
	UnitSlice  = "unit.slice"
	UnitBudget = "unit.rtBudget"
)

// NotDurable says what ends a unit's partition, and the policy and the slice of its threads.
const NotDurable = ends + "; what its threads start meanwhile inherits it"

const ends = "not durable: a restart of the unit ends it, and the agent of a host without Kubernetes, or apply, sets it again"

const (
	// cpuFile exists in groups of the unified hierarchy that have the CPU controller. These groups have a budget for
	// real-time threads if the kernel has budgets.
	cpuFile = "cpu.max"
	// budgetFile and periodFile are the budget in groups of the CPU controller's own hierarchy.
	budgetFile = "cpu.rt_runtime_us"
	periodFile = "cpu.rt_period_us"
)

// unit returns the settings of one unit of a profile.
func unit(u profile.Unit, all []profile.Unit, h Host) []Setting {
	var rows []Setting
	add := func(row Setting, group, file string, now ...string) {
		row.Instance, row.Phase = u.Name, knob.Units
		support, why, stopped := runs(u, group, h, row.Knob == UnitPolicy || row.Knob == UnitSlice)
		if support != knob.Settable || row.Support == "" {
			row.Support = support
		}
		if why != "" {
			row.Why = why
		}
		row.Stopped = stopped
		if group != "" {
			row.File, row.Now = group+"/"+file, strings.Join(now, ", ")
		}
		if row.Write == "" {
			row.Write = row.Want
		}
		if row.Want != "" {
			rows = append(rows, row)
		}
	}
	group, scheduled := h.Facts.Groups[u.Name], h.Facts.Scheduled(u.Name)
	text := func(file string) string { return h.Files[group+"/"+file] }
	add(Setting{Knob: UnitCPUs, Want: u.CPUs.String(), Class: knob.Restart, Risk: knob.Medium}, group, "cpuset.cpus", text("cpuset.cpus"))
	if u.Partition != "" {
		rows[0].Phase = knob.Exclusives // a partition begins with the CPUs of its group
	}
	add(mems(u, h), group, "cpuset.mems", text("cpuset.mems"))
	threads, file := h.Threads[scheduled], knob.ThreadsFile
	if h.Facts.Unified == "" {
		file = knob.ThreadsFileV1
	}
	policyRow, sliceRow := policy(u, h), slice(u, h)
	if inner := beneath(u, all, h); inner != "" { // each would read the other's value as the original
		why := "its threads are those of " + inner + ", too: give only one of the two a policy or slice"
		policyRow.Support, policyRow.Why, sliceRow.Support, sliceRow.Why = knob.ReadOnly, why, knob.ReadOnly, why
	}
	add(policyRow, scheduled, file, threads.Policies...)
	add(sliceRow, scheduled, file, threads.Slices...)
	return rows
}

// policy returns the policy of a unit's threads. The kernel refuses a real-time policy if the group has no budget.
func policy(u profile.Unit, h Host) Setting {
	row := Setting{Knob: UnitPolicy, Want: u.Policy, Class: knob.Exact, Risk: risk(u.Policy), Why: NotDurable}
	group := h.Facts.Scheduled(u.Name)
	switch {
	case row.Risk != knob.High:
	case h.Facts.RTGroups && h.Facts.Unified != "" && h.Files[group+"/"+cpuFile] != "":
		row.Support, row.Why = knob.ReadOnly, noBudget
	case h.Files[group+"/"+budgetFile] == "0" && u.RTBudget == 0:
		row.Support = knob.ReadOnly
		row.Why = "its group has no budget for real-time threads (" + budgetFile + " is 0, CONFIG_RT_GROUP_SCHED): give it one with rtBudget"
	}
	return row
}

// runs returns whether a unit has a group that can be set, and otherwise why not. stopped is true if the unit does not
// run, or if systemd has no such unit. On cgroup v1 only the CPU controller's own hierarchy is supported.
func runs(u profile.Unit, group string, h Host, ofCPU bool) (support knob.Support, why string, stopped bool) {
	switch {
	case !h.Facts.HasUnit(u.Name):
		return knob.Absent, "systemd has no such unit here", true
	case h.Facts.Unified == "" && (h.Facts.CPU == "" || !ofCPU):
		return knob.Absent, "needs the unified hierarchy of control groups", false
	case group == "" && h.Facts.Unified == "":
		return knob.Unknown, "the unit does not run, or has no group of the CPU controller (CPUAccounting=yes gives it one)", true
	case group == "":
		return knob.Unknown, "the unit does not run", true
	}
	return knob.Settable, "", false
}

// beneath returns a unit of the profile in the group of u whose threads also get a policy or a slice, or "".
func beneath(u profile.Unit, all []profile.Unit, h Host) string {
	for _, other := range all {
		group := h.Facts.Scheduled(u.Name)
		inside := strings.HasPrefix(h.Facts.Scheduled(other.Name), group+"/")
		if inside && group != "" && (other.Policy != "" || other.Slice != "") {
			return other.Name
		}
	}
	return ""
}

// mostMoved is how many bytes may move when the memory nodes of a unit are written. systemd is blocked in that time,
// since the kernel moves pages before the write ends (cpuset_write_resmask in kernel/cgroup/cpuset.c).
const mostMoved = 64 << 20

// mems returns the memory nodes of a unit. The unit's pages on other nodes move with the write. If they do not fit, the
// kernel would kill the unit for lack of memory.
func mems(u profile.Unit, h Host) Setting {
	row := Setting{
		Knob: UnitMems, Want: u.Mems.String(), Class: knob.SideEffects, Risk: knob.Medium,
		Why: "its pages move at once, and stay where they are at an undo",
	}
	moves, room, known := int64(0), int64(0), true
	for node, bytes := range h.Memory[h.Facts.Groups[u.Name]] {
		if !u.Mems.Contains(node) {
			moves += bytes
		}
	}
	for node := range u.Mems.All() {
		free, has := h.Room[node]
		room, known = room+free, known && has
	}
	switch {
	case moves == 0, h.Files[h.Facts.Groups[u.Name]+"/cpuset.mems"] == u.Mems.String(): // a list that it has moves nothing
	case known && moves > room:
		row.Support = knob.ReadOnly
		row.Why = fmt.Sprintf("%s would move to NUMA nodes %s, where there is room for %s", table.Bytes(moves), u.Mems, table.Bytes(room))
	case moves > mostMoved:
		row.Support = knob.ReadOnly
		row.Why = fmt.Sprintf("%s would move to NUMA nodes %s, and systemd stand still meanwhile: move them first (berth memory migrate --pid PROCESS --to %s)",
			table.Bytes(moves), u.Mems, u.Mems)
	default:
		row.Why = fmt.Sprintf("up to %s move at once, and stay where they are at an undo", table.Bytes(moves))
	}
	return row
}

func slice(u profile.Unit, h Host) Setting {
	row := Setting{Knob: UnitSlice, Class: knob.Exact, Risk: knob.Medium, Support: h.Slices, Why: NotDurable}
	k, _ := knob.Lookup("fair.slice")
	if v, err := k.Parse(u.Slice); err == nil && u.Slice != "" { // Check has validated it
		row.Want = v.Text
	}
	switch h.Slices {
	case knob.Absent:
		row.Why = "only Linux 6.12 and newer have slices of single threads"
	case "":
		row.Support, row.Why = knob.Unknown, "only Linux 6.12 and newer take it, and only a thread of that kernel shows it"
	}
	return row
}

func risk(policy string) knob.Risk {
	if _, priority, _ := profile.Policy(policy); priority > 0 {
		return knob.High
	}
	return knob.Low
}
