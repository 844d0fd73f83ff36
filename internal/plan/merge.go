package plan

import (
	"cmp"
	"slices"

	"github.com/berth-project/berth/internal/cgroup"
)

// Conflict says that settings which differ named one target.
type Conflict struct {
	Target Target
	// Winner is the owner whose value stands, "" when nobody won: then no
	// setting of the target is in the merged list and the host keeps what it has.
	Winner Owner
	// Refused are the settings that were left out, in a fixed order.
	Refused []Setting
}

// Merge leaves at most one setting a target. Settings with the same value are
// one. Of different values that of the owner with the highest rank wins (see
// Owners); if settings of that same rank differ, none wins. Both results are
// sorted by target and do not depend on the order of the argument, which is
// not changed.
func Merge(settings []Setting) ([]Setting, []Conflict) {
	sorted := slices.Clone(settings)
	slices.SortStableFunc(sorted, compareSettings)
	var merged []Setting
	var conflicts []Conflict
	for len(sorted) > 0 {
		n := 1
		for n < len(sorted) && sorted[n].Target == sorted[0].Target {
			n++
		}
		kept, conflict := settle(sorted[:n])
		merged = append(merged, kept...)
		conflicts = append(conflicts, conflict...)
		sorted = sorted[n:]
	}
	return merged, conflicts
}

// settle decides between the settings of one target, which come sorted by rank.
func settle(claims []Setting) ([]Setting, []Conflict) {
	first := claims[0]
	var refused []Setting
	tied := false
	for _, s := range claims[1:] {
		if cgroup.Same(s.Knob, s.Value, first.Value) {
			continue
		}
		refused = append(refused, s)
		tied = tied || rank(s.Owner) == rank(first.Owner)
	}
	switch {
	case len(refused) == 0:
		return []Setting{first}, nil
	case tied:
		return nil, []Conflict{{Target: first.Target, Refused: slices.Clone(claims)}}
	default:
		return []Setting{first}, []Conflict{{Target: first.Target, Winner: first.Owner, Refused: refused}}
	}
}

func compareSettings(a, b Setting) int {
	return cmp.Or(
		compareTargets(a.Target, b.Target),
		cmp.Compare(rank(a.Owner), rank(b.Owner)),
		cmp.Compare(a.Owner, b.Owner),
		cmp.Compare(a.Workload, b.Workload),
		cmp.Compare(a.Value, b.Value),
		cmp.Compare(a.Why, b.Why),
	)
}

func compareTargets(a, b Target) int {
	return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Knob, b.Knob))
}

// Diff returns a change for each wanted setting whose observed value is not
// the same (cgroup.Same), in the order of wanted. A target that was not
// observed is left out: without the value that stands nothing could be
// journaled or compared.
func Diff(wanted []Setting, observed map[Target]cgroup.Value) []Change {
	var changes []Change
	for _, s := range wanted {
		from, ok := observed[s.Target]
		if !ok || cgroup.Same(s.Knob, s.Value, from) {
			continue
		}
		changes = append(changes, Change{Setting: s, From: from})
	}
	return changes
}
