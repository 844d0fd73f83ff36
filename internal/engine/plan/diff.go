package plan

// Diff returns a change for each desired setting whose observed value is not the same (Kind.Same), in the order of
// wanted. It leaves out a target that was not observed: without the value in effect, nothing could be journaled or
// compared.
func Diff(kinds Kinds, wanted []Setting, observed map[Target]Value) []Change {
	var changes []Change
	for _, s := range wanted {
		from, ok := observed[s.Target]
		if !ok || kinds.Same(s.Target, s.Value, from) {
			continue
		}
		changes = append(changes, Change{Setting: s, From: from})
	}
	return changes
}
