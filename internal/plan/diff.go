package plan

// Diff returns a change for each wanted setting whose observed value is not
// the same (Kind.Same), in the order of wanted. A target that was not
// observed is left out: without the value that stands nothing could be
// journaled or compared.
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
