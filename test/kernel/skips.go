package kernel

import "strings"

// Skip is a test that may skip itself in some cells, with the reason. It must pass in at
// least one other cell, and it must skip where it is listed: a stale entry fails too.
type Skip struct {
	Test    string   // Package directory, a dot, and the test; its subtests are included.
	Layouts []string // cgroup layouts in which it skips.
	Reason  string
}

// skips is the complete list.
func skips() []Skip {
	return []Skip{}
}

// covers says that the entry is about the test, or about a test that it is part of.
func (s Skip) covers(test string) bool {
	return test == s.Test || strings.HasPrefix(test, s.Test+"/")
}
