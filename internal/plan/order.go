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
// state after the last one; the package comment says why. The order is total:
// it does not depend on the order of the argument, which is not changed. No
// two changes may have the same target.
func Order(changes []Change) []Change {
	quotas := make(map[string]Change)
	for _, c := range changes {
		if c.Knob == cgroup.KnobMax {
			quotas[c.Group] = c
		}
	}
	places := make([]place, 0, len(changes))
	for _, c := range changes {
		places = append(places, placeOf(c, quotas))
	}
	slices.SortStableFunc(places, comparePlaces)
	ordered := make([]Change, 0, len(changes))
	for _, p := range places {
		ordered = append(ordered, p.change)
	}
	return ordered
}

// Needs reports whether the kernel may refuse later while earlier has not been
// made. Whoever could not make earlier leaves later out as well. The rule
// between groups is that of cgroup v1, the stricter one.
func Needs(later, earlier Change) bool {
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

// place is the sort key of one change.
type place struct {
	change  Change
	narrows bool // belongs to the second half, which runs from the leaves up
	depth   int  // groups on the path
	turn    int  // within a group: -1 before the quota, 0, 1 after it
}

// placeOf sorts a burst in next to the quota of its group where both change,
// because they are tied; alone it goes by its own direction.
func placeOf(c Change, quotas map[string]Change) place {
	p := place{change: c, depth: depth(c.Group), narrows: narrows(c)}
	quota, both := quotas[c.Group]
	if c.Knob != cgroup.KnobBurst || !both {
		return p
	}
	p.narrows = narrows(quota)
	p.turn = -1
	rises := cmp.Compare(target(c).n, origin(c).n) > 0
	if exceeds(target(c), origin(quota)) || rises && !exceeds(origin(c), target(quota)) {
		p.turn = 1
	}
	return p
}

func comparePlaces(a, b place) int {
	if a.narrows != b.narrows {
		if b.narrows {
			return -1
		}
		return 1
	}
	down := cmp.Compare(a.depth, b.depth)
	if a.narrows {
		down = -down
	}
	return cmp.Or(
		down,
		cmp.Compare(a.change.Group, b.change.Group),
		cmp.Compare(a.turn, b.turn),
		cmp.Compare(a.change.Knob, b.change.Knob),
	)
}

// narrows reports whether a change takes from its group: a lower ratio of
// quota to period, or a smaller burst.
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
