package plan

import (
	"math"
	"path"
	"slices"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// step is one write: a change with the forms of its old and its new value. A list that inherits has the set of the
// nearest group above that also changes, before or after that group's change. Without such a group it has every CPU.
type step struct {
	change   Change
	from, to Form
}

// spot is the position of a value in a hierarchy. The order rules use it to find the value of another target.
type spot struct{ tree, path string }

func (s step) spot() spot { return spot{s.to.Tree, s.to.Path} }

func everything() cpuset.Set {
	words := cpuset.Set{}.Words()
	for i := range words {
		words[i] = math.MaxUint64
	}
	return cpuset.OfWords(words)
}

func stepOf(kinds Kinds, c Change) step {
	s := step{change: c}
	s.from, s.to = kinds.forms(c)
	for _, f := range []*Form{&s.from, &s.to} {
		if f.Inherits {
			f.Set = everything()
		}
	}
	return s
}

func (s step) list() bool { return s.to.Shape == List }

// taken and released are the CPUs or nodes that a step gives to its group and removes from it.
func (s step) taken() cpuset.Set    { return s.to.Set.Difference(s.from.Set) }
func (s step) released() cpuset.Set { return s.from.Set.Difference(s.to.Set) }

func (s step) phase() phase {
	switch {
	case !s.list() && narrows(s):
		return quotasNarrow
	case !s.list():
		return quotasWiden
	case s.to.Set.IsSubsetOf(s.from.Set) && !s.to.Inherits:
		return listsNarrow
	case s.to.Set.IsSubsetOf(s.from.Set), s.from.Set.IsSubsetOf(s.to.Set): // inherits after the groups above narrowed
		return listsWiden
	}
	return listsMove
}

// jumps reports whether a list goes to its new value without first giving up what it loses. A list of CPUs jumps when
// it shares nothing with the new list, as no list may be empty. Memory nodes always jump: at each write the kernel
// moves all pages that are on other nodes. An intermediate write would move pages to nodes where they do not stay.
func (s step) jumps() bool {
	return s.phase() == listsMove && (!s.to.Exclusive || !s.from.Set.Intersects(s.to.Set))
}

// shifts reports whether one write of memory nodes would move the pages on all of them, also on nodes that stay. If the
// new list has as many nodes as the old one, the kernel moves pages by a node's position in the list. From 1-2 to 0-1,
// pages on 1 go to 0, and pages on 2 go to 1 (mm/mempolicy.c, do_migrate_pages).
func (s step) shifts() bool {
	return s.jumps() && !s.to.Exclusive && s.from.Set.Intersects(s.to.Set) && s.from.Set.Size() == s.to.Set.Size()
}

// split turns every list that moves into two steps, and reports whether any list jumps. In general the list first gives
// up what it loses and then gets what it gains, so that every release comes before any gain. If a group below jumps,
// the list first gains and then gives up, since the group below needs both in between. Memory nodes that would shift do
// the same.
func split(kinds Kinds, changes []Change) (steps []step, tangled bool) {
	whole := make([]step, 0, len(changes))
	for _, c := range changes {
		whole = append(whole, stepOf(kinds, c))
	}
	lists := bySpot(whole, List)
	var jumping []step
	for i, s := range whole {
		whole[i] = resolve(s, lists)
		if whole[i].jumps() {
			jumping = append(jumping, whole[i])
		}
	}
	for _, s := range whole {
		between := s.from.Set.Intersect(s.to.Set)
		switch {
		case s.phase() != listsMove:
			between = cpuset.Set{}
		case jumpsBelow(s, jumping), s.shifts():
			between = s.from.Set.Union(s.to.Set)
		case s.jumps():
			between = cpuset.Set{}
		}
		if between.IsEmpty() {
			steps = append(steps, s)
			continue
		}
		first, second := s, s
		half := Value(between.String())
		first.change.Value, second.change.From = half, half
		first.to.Set, first.to.Inherits = between, false
		second.from.Set, second.from.Inherits = between, false
		steps = append(steps, first, second)
	}
	return steps, len(jumping) > 0
}

// bySpot returns the steps of a shape by their spot.
func bySpot(steps []step, shape Shape) map[spot]step {
	found := make(map[spot]step)
	for _, s := range steps {
		if s.to.Shape == shape {
			found[s.spot()] = s
		}
	}
	return found
}

// resolve returns the step with the sets that it inherits.
func resolve(s step, lists map[spot]step) step {
	if !s.list() || !s.from.Inherits && !s.to.Inherits {
		return s
	}
	for above := path.Dir(s.to.Path); above != "." && above != "/"; above = path.Dir(above) {
		parent, changes := lists[spot{s.to.Tree, above}]
		if !changes {
			continue
		}
		p := resolve(parent, lists)
		if s.from.Inherits {
			s.from.Set = p.from.Set
		}
		if s.to.Inherits {
			s.to.Set = p.to.Set
		}
		break
	}
	return s
}

func jumpsBelow(s step, jumping []step) bool {
	return slices.ContainsFunc(jumping, func(j step) bool {
		return j.to.Tree == s.to.Tree && isBelow(j.to.Path, s.to.Path)
	})
}

// bond is how strongly one step depends on another.
type bond int

const (
	free    bond = iota
	polite       // the kernel accepts it, but another group would be disturbed
	refused      // the kernel may refuse it
)

// tie returns how later depends on earlier.
func tie(later, earlier step) bond {
	l, e := later.change, earlier.change
	switch {
	case !later.list() && !earlier.list():
		if needsQuota(later, earlier) {
			return refused
		}
	case later.list() && earlier.list():
		return tieLists(later, earlier)
	case l.Owner == OwnerPlace && e.Owner == OwnerPlace && later.to.Path == earlier.to.Path:
		if lifts(later, earlier) || returns(later, earlier) {
			return polite
		}
	}
	return free
}

// lifts reports whether later removes a quota once the group has its CPUs to itself (earlier).
func lifts(later, earlier step) bool {
	return later.to.Shape == Limit && !finite(later.to) && earlier.to.Exclusive && earlier.phase() != listsWiden
}

// returns reports whether later gives up the group's own CPUs once its quota is back (earlier).
func returns(later, earlier step) bool {
	return earlier.to.Shape == Limit && !finite(earlier.from) && later.to.Exclusive && later.phase() != listsNarrow
}

func tieLists(later, earlier step) bond {
	l, e := later.change, earlier.change
	switch {
	case later.to.Tree != earlier.to.Tree:
		return free
	case later.to.Path == earlier.to.Path: // the two halves of a move
		if l.From == e.Value {
			return refused
		}
	case isBelow(later.to.Path, earlier.to.Path):
		return tieBelow(later, earlier)
	case isBelow(earlier.to.Path, later.to.Path):
		return tieAbove(later, earlier)
	case later.to.Exclusive && l.Owner.Apart(e.Owner):
		if later.taken().Intersects(earlier.released()) {
			return polite
		}
	}
	return free
}

// tieBelow returns the bond where later is in a group below the group of earlier.
func tieBelow(later, earlier step) bond {
	switch {
	case !later.to.Inherits && !later.to.Set.IsSubsetOf(earlier.from.Set):
		return refused
	case later.to.Inherits && !earlier.released().IsEmpty():
		return polite
	}
	return free
}

// tieAbove returns the bond where later is in a group above the group of earlier. On v2, a group whose list shares
// nothing with its parent's runs on all that the parent has. That is exactly the effect desired for a group that is
// going to inherit.
func tieAbove(later, earlier step) bond {
	if !earlier.from.Inherits && !earlier.to.Inherits && !earlier.from.Set.IsSubsetOf(later.to.Set) {
		return refused
	}
	return free
}

// untangle sorts steps so that each step comes after the steps that it depends on, and otherwise keeps their order. Two
// groups that exchange all of their CPUs wait for each other. In every order one of them is on the other's CPUs for a
// moment, so the first one goes ahead.
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

// nextReady returns the first step that waits for nothing, else the first step that the kernel accepts, else the first
// step.
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
