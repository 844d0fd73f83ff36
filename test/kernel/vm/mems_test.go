package main

import "testing"

func TestParseSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"96MiB": 96 << 20, "1GiB": 1 << 30, "8GiB": 8 << 30, "64MiB": 0, "8": 0, "GiB": 0, "-1GiB": 0, "2000000000GiB": 0} {
		if got, err := parseSize(text); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
}

// TestMemoryFor checks that a node has room for the group within the nine tenths that an agent binds, and that the full
// size fits on a machine of 23 GB.
func TestMemoryFor(t *testing.T) {
	t.Parallel()
	if got := memoryFor(1 << 30); got != 3840 {
		t.Errorf("for 1 GiB: %d MiB", got)
	}
	if got := memoryFor(8 << 30); got > 20<<10 {
		t.Errorf("for 8 GiB: %d MiB", got)
	}
}
