package locality

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
	_ "github.com/berth-project/berth/test/chance" // fixes the cases of the properties
)

func set(t interface{ Fatal(...any) }, list string) cpuset.Set {
	s, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRatio(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		memory Memory
		local  string
		ratio  int
		remote int64
		nodes  string
	}{
		"nothing":                  {Memory{}, "0", 100, 0, ""},
		"file pages do not count":  {Memory{Movable: observed.Bytes{1, 0}, File: observed.Bytes{0, 99}}, "0", 100, 0, ""},
		"43 per cent":              {Memory{Movable: observed.Bytes{43, 57}}, "0", 43, 57, "1"},
		"rounded down":             {Memory{Movable: observed.Bytes{999, 1}}, "0", 99, 1, "1"},
		"all elsewhere":            {Memory{Movable: observed.Bytes{0, 7}}, "0", 0, 7, "1"},
		"two local nodes of four":  {Memory{Movable: observed.Bytes{10, 20, 30, 40}}, "0,2", 40, 60, "1,3"},
		"no local node":            {Memory{Movable: observed.Bytes{10}}, "", 0, 10, "0"},
		"a local node without any": {Memory{Movable: observed.Bytes{10}}, "5", 0, 10, "0"},
		"two petabytes":            {Memory{Movable: observed.Bytes{1 << 51, 1 << 51}}, "1", 50, 1 << 51, "0"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			local := set(t, tt.local)
			if got := tt.memory.Ratio(local); got != tt.ratio {
				t.Errorf("ratio %d, want %d", got, tt.ratio)
			}
			if got := tt.memory.Remote(local); got != tt.remote {
				t.Errorf("remote %d, want %d", got, tt.remote)
			}
			if got := tt.memory.RemoteNodes(local).String(); got != tt.nodes {
				t.Errorf("remote nodes %s, want %s", got, tt.nodes)
			}
		})
	}
}

// TestRatioNeverFlatters checks that the ratio is 100 only if nothing is remote, and that moving a page to a local node
// never lowers it.
func TestRatioNeverFlatters(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := Memory{Movable: rapid.SliceOfN(rapid.Int64Range(0, 1<<44), 2, 8).Draw(t, "bytes")}
		local := set(t, "0")
		before := m.Ratio(local)
		if (before == Full) != (m.Remote(local) == 0) {
			t.Fatalf("ratio %d with %d bytes remote", before, m.Remote(local))
		}
		from := rapid.IntRange(1, len(m.Movable)-1).Draw(t, "from")
		moved := rapid.Int64Range(0, m.Movable[from]).Draw(t, "moved")
		m.Movable[from] -= moved
		m.Movable[0] += moved
		if after := m.Ratio(local); after < before {
			t.Fatalf("ratio fell from %d to %d", before, after)
		}
	})
}
