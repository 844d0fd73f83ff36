package plan

import "github.com/berth-project/berth/internal/cgroup"

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
