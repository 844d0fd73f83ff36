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
//
// Stands is what stands at their targets as far as that is Berth's own (apply.Stands). It may be older than
// the intent: systemd is asked for a value after that is journaled.
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

// beside says it of offline work beside pinned groups.
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
	both = both.Difference(exclusive) // An agent may have died before a list left out what it pinned.
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

// standing is what stands of an entry, and its intent where that is not known: who writes compares.
func standing(e journal.Entry, stands map[plan.Target]plan.Value) plan.Value {
	if v, is := stands[e.Target]; is {
		return v
	}
	return e.Intent
}

// listsOf returns the CPUs that a group has or is to have. What a pinned group had of another owner is not
// its own.
func listsOf(e journal.Entry, stands map[plan.Target]plan.Value) (cpus cpuset.Set, is bool) {
	cpus, is = listOf(e, e.Intent)
	if has, stood := listOf(e, standing(e, stands)); stood && (e.Owner != plan.OwnerPlace || e.Owned) {
		return cpus.Union(has), true
	}
	return cpus, is
}

// listOf returns the CPUs of a value that a group may have.
func listOf(e journal.Entry, v plan.Value) (cpus cpuset.Set, is bool) {
	if cgroupfile.Knob(e.Target) != cgroup.KnobCPUs {
		return cpuset.Set{}, false
	}
	cpus, inherits, err := cgroup.Value(v).List()
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
