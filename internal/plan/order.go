package plan

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/cgroup"
)

// Order returns the changes in an order that the kernel accepts write by
// write, provided that it accepts the state before the first one and the
// state after the last one; the package comment says why. A list that moves may
// come back as two changes of one target, one after the other. The order is
// total: it does not depend on the order of the argument, which is not changed.
// No two changes may have the same target.
func Order(changes []Change) []Change {
	steps, tangled := split(changes)
	quotas := make(map[string]Change)
	for _, s := range steps {
		if s.change.Knob == cgroup.KnobMax {
			quotas[s.change.Group] = s.change
		}
	}
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

// Needs reports whether later has to wait for earlier: the kernel may refuse it
// before, or two groups would have CPUs together of which one shall have them to
// itself. Whoever could not make earlier leaves later out as well. The rules
// between groups are those of cgroup v1, the stricter ones.
func Needs(later, earlier Change) bool { return tie(stepOf(later), stepOf(earlier)) != free }

// needsQuota is Needs for quotas and bursts.
func needsQuota(later, earlier Change) bool {
	switch {
	case later.Knob == cgroup.KnobBurst && earlier.Knob == cgroup.KnobMax:
		return later.Group == earlier.Group && exceeds(target(later), origin(earlier))
	case later.Knob == cgroup.KnobMax && earlier.Knob == cgroup.KnobBurst:
		return later.Group == earlier.Group && exceeds(origin(earlier), target(later))
	case later.Knob != cgroup.KnobMax || earlier.Knob != cgroup.KnobMax:
		return false
	case isBelow(later.Group, earlier.Group):
		return finite(target(later)) && compareRatios(target(later), origin(earlier)) > 0
	case isBelow(earlier.Group, later.Group):
		return finite(origin(earlier)) && compareRatios(origin(earlier), target(later)) > 0
	}
	return false
}

// phase is the part of the order that a step belongs to.
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
	depth int // groups on the path
	turn  int // within a group: -1 before the quota, 0, 1 after it
}

// placeOf sorts a burst in next to the quota of its group where both change,
// because they are tied; alone it goes by its own direction.
func placeOf(s step, quotas map[string]Change) place {
	c := s.change
	p := place{step: s, phase: s.phase(), depth: depth(c.Group)}
	quota, both := quotas[c.Group]
	if c.Knob != cgroup.KnobBurst || !both {
		return p
	}
	p.phase = stepOf(quota).phase()
	p.turn = -1
	rises := cmp.Compare(target(c).n, origin(c).n) > 0
	if exceeds(target(c), origin(quota)) || rises && !exceeds(origin(c), target(quota)) {
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
		cmp.Compare(a.change.Group, b.change.Group),
		cmp.Compare(a.turn, b.turn),
		cmp.Compare(a.change.Knob, b.change.Knob),
	)
}

// narrows reports whether a change of a quota or a burst takes from its group: a
// lower ratio of quota to period, or a smaller burst.
func narrows(c Change) bool {
	if c.Knob == cgroup.KnobMax {
		return compareRatios(target(c), origin(c)) < 0
	}
	return target(c).n < origin(c).n
}

func depth(group string) int {
	return len(strings.FieldsFunc(group, func(r rune) bool { return r == '/' }))
}

// isBelow reports whether group lies strictly below ancestor.
func isBelow(group, ancestor string) bool {
	g, a := path.Clean("/"+group), path.Clean("/"+ancestor)
	return g != a && (a == "/" || strings.HasPrefix(g, a+"/"))
}
