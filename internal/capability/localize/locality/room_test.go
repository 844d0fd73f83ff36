package locality

import (
	"testing"

	"pgregory.net/rapid"
)

func TestRoom(t *testing.T) {
	t.Parallel()
	const gib = 1 << 30
	for name, tt := range map[string]struct {
		node   NodeMemory
		unused int64
		want   int64
	}{
		"free":                              {NodeMemory{Total: 100 * gib, Free: 10 * gib}, 0, 8 * gib},
		"a small node":                      {NodeMemory{Total: gib, Free: gib}, 0, gib - 64<<20},
		"half the cache":                    {NodeMemory{Total: 100 * gib, Free: 2 * gib, InactiveFile: 8 * gib}, 0, 4 * gib},
		"but for what is dirty":             {NodeMemory{Total: 100 * gib, Free: 2 * gib, InactiveFile: 8 * gib, Dirty: 6 * gib}, 0, gib},
		"and nothing that could be swapped": {NodeMemory{Total: 100 * gib, Free: 5 * gib, InactiveFile: 8 * gib, Swap: 1}, 0, 3 * gib},
		"all of it dirty":                   {NodeMemory{Total: 100 * gib, Free: 2 * gib, InactiveFile: gib, Dirty: 6 * gib}, 0, 0},
		"watermarks":                        {NodeMemory{Total: 100 * gib, Free: 4 * gib, High: gib}, 0, gib},
		"limits not used":                   {NodeMemory{Total: 100 * gib, Free: 4 * gib}, gib, gib},
		"more promised than free":           {NodeMemory{Total: 100 * gib, Free: 4 * gib}, 10 * gib, -8 * gib},
	} {
		if got := tt.node.Room(tt.unused); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}

// TestAllowsKeepsTheWatermarks checks that a permitted call leaves the node at or above the middle of its watermarks,
// and never below Min.
func TestAllowsKeepsTheWatermarks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := NodeMemory{Free: rapid.Int64Range(0, 1<<40).Draw(t, "free"), Min: rapid.Int64Range(0, 1<<30).Draw(t, "min")}
		n.Low = n.Min + rapid.Int64Range(0, 1<<30).Draw(t, "low")
		bytes := rapid.Int64Range(0, 1<<40).Draw(t, "bytes")
		if left := n.Free - bytes; n.Allows(bytes) != (left >= (n.Min+n.Low)/2) || n.Allows(bytes) && left < n.Min {
			t.Fatalf("%d of %+v", bytes, n)
		}
	})
}

func TestLeftsAreAll(t *testing.T) {
	t.Parallel()
	seen := map[Left]bool{}
	for _, l := range Lefts() {
		seen[l] = true
	}
	if len(seen) != 9 || len(Lefts()) != 9 {
		t.Errorf("%v", Lefts())
	}
}
