// Package orphans decides what goes back of what an agent moves, where no agent moves it any more: raised
// quotas, and the boundary between online and offline work. It is pure.
//
// Exclusive CPUs stay while they are somebody's, and so does what keeps others off them: what is put back
// beside them never has one.
package orphans

import (
	"slices"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
)

// Movers returns the owners of what an agent moves, in the order in which it goes back.
func Movers() []plan.Owner { return []plan.Owner{plan.OwnerBurst, plan.OwnerIsolate} }

// Of returns what to do about the entries of one owner: which go back to their originals, and the changes
// of those that cannot yet, in no order.
//
// The groups that shrank for offline work have the owner pool, and widen with it: else they would have
// less than before for nothing. Beside pinned groups the boundary falls, and both sides have together
// what each had.
func Of(entries []journal.Entry, owner plan.Owner) (restore func(journal.Entry) bool, widen []plan.Change) {
	divided := owner == plan.OwnerIsolate && slices.ContainsFunc(entries, of(plan.OwnerIsolate))
	if divided && slices.ContainsFunc(entries, of(plan.OwnerPlace)) {
		return beside(entries)
	}
	return func(e journal.Entry) bool {
		return e.Owner == owner || divided && e.Owner == plan.OwnerPool
	}, nil
}

func of(owner plan.Owner) func(journal.Entry) bool {
	return func(e journal.Entry) bool { return e.Owner == owner }
}

// beside says it of offline work beside pinned groups.
func beside(entries []journal.Entry) (restore func(journal.Entry) bool, widen []plan.Change) {
	var both, exclusive cpuset.Set
	boundary, lists := false, map[plan.Target]cpuset.Set{}
	for _, e := range entries {
		cpus, is := listOf(e)
		switch {
		case !is:
		case e.Owner == plan.OwnerPlace:
			exclusive = exclusive.Union(cpus)
		default:
			lists[e.Target], both = cpus, both.Union(cpus)
			boundary = boundary || e.Owner == plan.OwnerIsolate
		}
	}
	both = both.Difference(exclusive) // An agent may have died before a list left out what it pinned.
	for _, e := range entries {
		has, is := lists[e.Target]
		if gets := original(e, both); boundary && is && !gets.IsEmpty() && gets != has {
			widen = append(widen, plan.Change{From: e.Intent, Setting: plan.Setting{
				Target: e.Target, ID: e.ID, Value: plan.Value(cgroup.ListValue(gets)),
				Owner: plan.OwnerPool, Workload: e.Workload, Why: "no agent moves the boundary of offline work",
			}})
		}
	}
	return func(e journal.Entry) bool {
		_, list := lists[e.Target]
		return e.Owner == plan.OwnerIsolate && !list
	}, widen
}

// listOf returns the CPUs that a group was given.
func listOf(e journal.Entry) (cpus cpuset.Set, is bool) {
	if cgroupfile.Knob(e.Target) != cgroup.KnobCPUs {
		return cpuset.Set{}, false
	}
	cpus, inherits, err := cgroup.Value(e.Intent).List()
	return cpus, err == nil && !inherits
}

// original returns what the group had of these CPUs before Berth.
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
