package plan

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// Order returns the changes in an order that the kernel accepts write by write, provided that it accepts the state
// before the first write and the state after the last. The package comment explains why. A list that moves may become
// two changes of one target, in sequence. The order is total: it does not depend on the order of the argument, which is
// not changed. No two changes may have the same target.
func Order(kinds Kinds, changes []Change) []Change {
	steps, tangled := split(kinds, changes)
	quotas := bySpot(steps, Limit)
	places := make([]place, 0, len(steps))
	for _, s := range steps {
		places = append(places, placeOf(s, quotas))
	}
	slices.SortStableFunc(places, comparePlaces)
	if tangled {
		places = untangle(places)
	}
	ordered := make([]Change, 0, len(places))
	for _, p := range places {
		ordered = append(ordered, p.change)
	}
	return ordered
}

// Needs reports whether later has to wait for earlier. Before earlier, the kernel may refuse later, or two groups would
// share CPUs that one of them must have exclusively. A caller that could not make earlier leaves out later as well. The
// rules between groups are those of cgroup v1, which are stricter.
func Needs(kinds Kinds, later, earlier Change) bool {
	return tie(stepOf(kinds, later), stepOf(kinds, earlier)) != free
}

// needsQuota is Needs for quotas and bursts.
func needsQuota(later, earlier step) bool {
	l, e := later.to, earlier.to
	switch {
	case l.Tree != e.Tree:
		return false
	case l.Shape == Burst && e.Shape == Limit:
		return l.Path == e.Path && exceeds(later.to, earlier.from)
	case l.Shape == Limit && e.Shape == Burst:
		return l.Path == e.Path && exceeds(earlier.from, later.to)
	case l.Shape != Limit || e.Shape != Limit:
		return false
	case isBelow(l.Path, e.Path):
		return finite(later.to) && compareRatios(later.to, earlier.from) > 0
	case isBelow(e.Path, l.Path):
		return finite(earlier.from) && compareRatios(earlier.from, later.to) > 0
	}
	return false
}

// phase is the part of the order to which a step belongs.
type phase int

const (
	listsNarrow  phase = iota // from the leaves up
	quotasWiden               // from the root down
	quotasNarrow              // from the leaves up
	listsMove                 // from the root down, but see untangle
	listsWiden                // from the root down
)

func (p phase) upwards() bool { return p == listsNarrow || p == quotasNarrow }

// place is a step with its sort key.
type place struct {
	step
	phase phase
	depth int // number of groups on the path
	turn  int // within a group: -1 before the quota, 0, 1 after it
}

// placeOf sorts a burst next to the quota of its group where both change, because they are tied; a burst that changes
// alone is sorted by its own direction.
func placeOf(s step, quotas map[spot]step) place {
	p := place{step: s, phase: s.phase(), depth: depth(s.to.Path)}
	quota, both := quotas[s.spot()]
	if s.to.Shape != Burst || !both {
		return p
	}
	p.phase = quota.phase()
	p.turn = -1
	rises := s.to.N > s.from.N
	if exceeds(s.to, quota.from) || rises && !exceeds(s.from, quota.to) {
		p.turn = 1
	}
	return p
}

func comparePlaces(a, b place) int {
	down := cmp.Compare(a.depth, b.depth)
	if a.phase.upwards() {
		down = -down
	}
	return cmp.Or(
		cmp.Compare(a.phase, b.phase),
		down,
		cmp.Compare(a.to.Path, b.to.Path),
		cmp.Compare(a.turn, b.turn),
		cmp.Compare(a.change.Knob, b.change.Knob),
		cmp.Compare(a.change.Driver, b.change.Driver),
	)
}

// narrows reports whether a change of a quota or a burst reduces what its group has: a lower ratio of quota to period,
// or a smaller burst.
func narrows(s step) bool {
	switch s.to.Shape {
	case Limit:
		return compareRatios(s.to, s.from) < 0
	case Burst:
		return s.to.N < s.from.N
	case Plain, List:
	}
	return false
}

func depth(group string) int {
	return len(strings.FieldsFunc(group, func(r rune) bool { return r == '/' }))
}

// isBelow reports whether group lies strictly below ancestor.
func isBelow(group, ancestor string) bool {
	g, a := path.Clean("/"+group), path.Clean("/"+ancestor)
	return g != a && (a == "/" || strings.HasPrefix(g, a+"/"))
}
