package plan

import (
	"math"
	"path"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/cpuset"
)

// step is one write: a change, with its two lists where it is one of a list.
type step struct {
	change   Change
	list     bool
	from, to span
}

// span is the value of a list as a set. To inherit stands for what the nearest
// group above that changes, too, has before or after that, and for every CPU
// without one.
type span struct {
	set      cpuset.Set
	inherits bool
}

// spanOf reads a value; one that is malformed counts as inherited and is left to
// whoever writes it to refuse.
func spanOf(v cgroup.Value) span {
	set, inherits, err := v.List()
	if err != nil || inherits {
		return span{set: everything(), inherits: true}
	}
	return span{set: set}
}

func everything() cpuset.Set {
	words := cpuset.Set{}.Words()
	for i := range words {
		words[i] = math.MaxUint64
	}
	return cpuset.OfWords(words)
}

func stepOf(c Change) step {
	if c.Knob.Controller() != cgroup.CPUSet {
		return step{change: c}
	}
	return step{change: c, list: true, from: spanOf(c.From), to: spanOf(c.Value)}
}

// taken and released are what a step gives its group and takes from it.
func (s step) taken() cpuset.Set    { return s.to.set.Difference(s.from.set) }
func (s step) released() cpuset.Set { return s.from.set.Difference(s.to.set) }

func (s step) phase() phase {
	switch {
	case !s.list && narrows(s.change):
		return quotasNarrow
	case !s.list:
		return quotasWiden
	case s.to.set.IsSubsetOf(s.from.set) && !s.to.inherits:
		return listsNarrow
	case s.to.set.IsSubsetOf(s.from.set), s.from.set.IsSubsetOf(s.to.set): // to inherit waits until those above are narrow
		return listsWiden
	}
	return listsMove
}

// jumps reports whether a list goes to another one that it shares nothing with.
// That is one write, as no list is empty.
func (s step) jumps() bool {
	return s.phase() == listsMove && !s.from.set.Intersects(s.to.set)
}

// split turns every list that moves into two steps, and says whether any list
// jumps. In general it first gives up what it loses and then takes what it gains,
// so that all that is released is released before anything is taken. But where a
// group below jumps it first takes and then gives up, since the group below needs
// both in between.
func split(changes []Change) (steps []step, tangled bool) {
	lists := listsOf(changes)
	var whole, jumping []step
	for _, c := range changes {
		s := resolve(c, lists)
		whole = append(whole, s)
		if s.jumps() {
			jumping = append(jumping, s)
		}
	}
	for _, s := range whole {
		between := s.from.set.Intersect(s.to.set)
		if jumpsBelow(s, jumping) {
			between = s.from.set.Union(s.to.set)
		}
		if s.phase() != listsMove || between.IsEmpty() {
			steps = append(steps, s)
			continue
		}
		first, second := s, s
		first.change.Value, second.change.From = cgroup.ListValue(between), cgroup.ListValue(between)
		first.to, second.from = span{set: between}, span{set: between}
		steps = append(steps, first, second)
	}
	return steps, len(jumping) > 0
}

func listsOf(changes []Change) map[Target]Change {
	lists := make(map[Target]Change)
	for _, c := range changes {
		if c.Knob.Controller() == cgroup.CPUSet {
			lists[c.Target] = c
		}
	}
	return lists
}

// resolve returns the step of a change with what it inherits.
func resolve(c Change, lists map[Target]Change) step {
	s := stepOf(c)
	if !s.list || !s.from.inherits && !s.to.inherits {
		return s
	}
	for above := path.Dir(c.Group); above != "." && above != "/"; above = path.Dir(above) {
		parent, changes := lists[Target{Group: above, Knob: c.Knob}]
		if !changes {
			continue
		}
		p := resolve(parent, lists)
		if s.from.inherits {
			s.from.set = p.from.set
		}
		if s.to.inherits {
			s.to.set = p.to.set
		}
		break
	}
	return s
}

func jumpsBelow(s step, jumping []step) bool {
	for _, j := range jumping {
		if j.change.Knob == s.change.Knob && isBelow(j.change.Group, s.change.Group) {
			return true
		}
	}
	return false
}

// bond is how one step depends on another.
type bond int

const (
	free    bond = iota
	polite       // the kernel takes it, but somebody would be disturbed
	refused      // the kernel may not take it
)

// tie tells how later depends on earlier.
func tie(later, earlier step) bond {
	l, e := later.change, earlier.change
	switch {
	case !later.list && !earlier.list:
		if needsQuota(l, e) {
			return refused
		}
	case later.list && earlier.list:
		return tieLists(later, earlier)
	case l.Owner == OwnerPlace && e.Owner == OwnerPlace && l.Group == e.Group:
		if lifts(later, earlier) || returns(later, earlier) {
			return polite
		}
	}
	return free
}

// lifts reports whether a quota goes once the CPUs are the group's own.
func lifts(later, earlier step) bool {
	return later.change.Knob == cgroup.KnobMax && !finite(target(later.change)) &&
		earlier.change.Knob == cgroup.KnobCPUs && earlier.phase() != listsWiden
}

// returns reports whether CPUs are given up once the quota is back.
func returns(later, earlier step) bool {
	return earlier.change.Knob == cgroup.KnobMax && !finite(origin(earlier.change)) &&
		later.change.Knob == cgroup.KnobCPUs && later.phase() != listsNarrow
}

func tieLists(later, earlier step) bond {
	l, e := later.change, earlier.change
	switch {
	case l.Knob != e.Knob:
		return free
	case l.Group == e.Group: // the two halves of a move
		if l.From == e.Value {
			return refused
		}
	case isBelow(l.Group, e.Group):
		return tieBelow(later, earlier)
	case isBelow(e.Group, l.Group):
		return tieAbove(later, earlier)
	case l.Knob == cgroup.KnobCPUs && (l.Owner == OwnerPlace || e.Owner == OwnerPlace):
		if later.taken().Intersects(earlier.released()) {
			return polite
		}
	}
	return free
}

// tieBelow is for a step in a group below the one of earlier.
func tieBelow(later, earlier step) bond {
	switch {
	case !later.to.inherits && !later.to.set.IsSubsetOf(earlier.from.set):
		return refused
	case later.to.inherits && !earlier.released().IsEmpty():
		return polite
	}
	return free
}

// tieAbove is for a step in a group above the one of earlier. v2 gives a list
// that the parent has nothing of all that the parent has, which is just what is
// wanted of one that is going to inherit.
func tieAbove(later, earlier step) bond {
	if !earlier.from.inherits && !earlier.to.inherits && !earlier.from.set.IsSubsetOf(later.to.set) {
		return refused
	}
	return free
}

// untangle sorts steps so that each comes after those it depends on, and leaves
// the order as it is where it may. Two groups that exchange all of their CPUs wait
// for each other: nobody can do that without one of them being on the other's CPUs
// for a moment, so the first one goes ahead.
func untangle(places []place) []place {
	waits := make([][]bond, len(places)) // waits[i][j]: how i depends on j
	for i := range places {
		waits[i] = make([]bond, len(places))
		for j := range places {
			if i != j {
				waits[i][j] = tie(places[i].step, places[j].step)
			}
		}
	}
	done := make([]bool, len(places))
	sorted := make([]place, 0, len(places))
	for len(sorted) < len(places) {
		next := nextReady(waits, done)
		done[next] = true
		sorted = append(sorted, places[next])
	}
	return sorted
}

// nextReady returns the first step that waits for nothing, else the first one
// that the kernel takes, else the first one.
func nextReady(waits [][]bond, done []bool) int {
	best, least := -1, refused+1
	for i := range waits {
		if done[i] {
			continue
		}
		worst := free
		for j, w := range waits[i] {
			if !done[j] {
				worst = max(worst, w)
			}
		}
		if worst < least {
			best, least = i, worst
		}
		if worst == free {
			break
		}
	}
	return best
}
