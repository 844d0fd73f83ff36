package sharedpool

import (
	"testing"

	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/topology"
)

func set(t *testing.T, list string) cpuset.Set {
	t.Helper()
	s, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Of 16 CPUs 0 is reserved, 2-3 are isolated at boot, 8-11 a partition's, and 4-5 a pinned pod's. Who
// would have all CPUs gets none of the partition, and who runs in it keeps it.
func TestForBesideAPartition(t *testing.T) {
	t.Parallel()
	partitioned := set(t, "8-11")
	machine := &topology.Topology{
		Online: set(t, "0-15"), Reserved: set(t, "0"), Isolated: set(t, "2-3").Union(partitioned), Partitioned: partitioned,
	}
	p := Of(machine, set(t, "1,6-7,4-5,12-15"), set(t, "4-5"))
	for name, c := range map[string]struct {
		bound, want string
		system      bool
	}{
		"all that there may ever be":    {"0-63", "1-3,6-7,12-15", false},
		"all, of the system":            {"0-63", "0-3,6-7,12-15", true},
		"in the partition":              {"8-11", "8-11", false},
		"in a part of it":               {"9", "9", false},
		"in the partition and outside":  {"7-9", "7", false},
		"in it and on a pinned pod's":   {"5,8", "8", false},
		"isolated at boot alone":        {"2-3", "2-3", false},
		"not known":                     {"", "1,6-7,12-15", false},
		"nothing but a pinned pod's":    {"4", "1,6-7,12-15", false},
		"a pinned pod's and the pool's": {"4-7", "6-7", false},
	} {
		if got := p.For(Container{Bound: set(t, c.bound), System: c.system}); got != set(t, c.want) {
			t.Errorf("%s: bound to %s it has %s, want %s", name, c.bound, got, c.want)
		}
	}
}
