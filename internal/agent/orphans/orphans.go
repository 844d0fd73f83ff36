// Package orphans decides which of the values that an agent moves are restored once no agent moves them any more:
// raised quotas, and the boundary between online and offline work. It is pure.
//
// Exclusive CPUs remain while a group owns them, and so do the lists that keep other groups off them: no restored or
// widened list has an exclusive CPU.
package orphans

import (
	"slices"

	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Movers returns the owners of the values that an agent moves, in the order of their restoration.
func Movers() []plan.Owner { return []plan.Owner{plan.OwnerBurst, plan.OwnerIsolate} }

// Of returns what to do about the entries of one owner. restore selects the entries that get back their originals;
// widen has the changes of entries that cannot be restored yet, in no order.
//
// Groups whose lists shrank for offline work have the owner pool. They widen together with offline work: otherwise they
// would have fewer CPUs than before for nothing. While groups are pinned only the boundary is removed: both sides get
// the CPUs that the two had together.
//
// stands has the current values of targets, as far as they are Berth's own (apply.Stands). A current value may be older
// than the intent: Berth journals a value before it asks systemd for it.
func Of(entries []journal.Entry, owner plan.Owner, stands map[plan.Target]plan.Value) (restore func(journal.Entry) bool, widen []plan.Change) {
	divided := owner == plan.OwnerIsolate && slices.ContainsFunc(entries, of(plan.OwnerIsolate))
	if divided && slices.ContainsFunc(entries, of(plan.OwnerPlace)) {
		return beside(entries, stands)
	}
	return func(e journal.Entry) bool {
		return e.Owner == owner || divided && e.Owner == plan.OwnerPool
	}, nil
}

func of(owner plan.Owner) func(journal.Entry) bool {
	return func(e journal.Entry) bool { return e.Owner == owner }
}

// beside is Of for offline work while groups are pinned.
func beside(entries []journal.Entry, stands map[plan.Target]plan.Value) (restore func(journal.Entry) bool, widen []plan.Change) {
	var both, exclusive cpuset.Set
	boundary, listed := false, map[plan.Target]bool{}
	for _, e := range entries {
		cpus, is := listsOf(e, stands)
		switch {
		case !is:
		case e.Owner == plan.OwnerPlace:
			exclusive = exclusive.Union(cpus)
		default:
			listed[e.Target], both = true, both.Union(cpus)
			boundary = boundary || e.Owner == plan.OwnerIsolate
		}
	}
	both = both.Difference(exclusive) // an agent may have died before it removed pinned CPUs from another list
	for _, e := range entries {
		from := standing(e, stands)
		has, _ := listOf(e, from)
		if gets := original(e, both); boundary && listed[e.Target] && !gets.IsEmpty() && gets != has {
			widen = append(widen, plan.Change{From: from, Setting: plan.Setting{
				Target: e.Target, ID: e.ID, Value: plan.Value(cgroup.ListValue(gets)),
				Owner: plan.OwnerPool, Workload: e.Workload, Why: "no agent moves the boundary of offline work",
			}})
		}
	}
	return func(e journal.Entry) bool { return e.Owner == plan.OwnerIsolate && !listed[e.Target] }, widen
}

// standing returns the current value of an entry, or its intent if that is not known: the writer compares.
func standing(e journal.Entry, stands map[plan.Target]plan.Value) plan.Value {
	if v, is := stands[e.Target]; is {
		return v
	}
	return e.Intent
}

// listsOf returns the CPUs that a group has or is about to get. The list that a pinned group had from another owner is
// not its own.
func listsOf(e journal.Entry, stands map[plan.Target]plan.Value) (cpus cpuset.Set, is bool) {
	cpus, is = listOf(e, e.Intent)
	if has, stood := listOf(e, standing(e, stands)); stood && (e.Owner != plan.OwnerPlace || e.Owned) {
		return cpus.Union(has), true
	}
	return cpus, is
}

// listOf returns the CPUs of a value, and reports whether it is a list of CPUs.
func listOf(e journal.Entry, v plan.Value) (cpus cpuset.Set, is bool) {
	if cgroupfile.Knob(e.Target) != cgroup.KnobCPUs {
		return cpuset.Set{}, false
	}
	cpus, inherits, err := cgroup.Value(v).List()
	return cpus, err == nil && !inherits
}

// original returns which of these CPUs the group had before Berth.
func original(e journal.Entry, cpus cpuset.Set) cpuset.Set {
	had, inherits, err := cgroup.Value(e.Original).List()
	if inherits {
		return cpus
	}
	if err != nil {
		return cpuset.Set{}
	}
	return had.Intersect(cpus)
}
