package sharedpool

import (
	"testing"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

func set(t *testing.T, list string) cpuset.Set {
	t.Helper()
	s, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestForBesideAPartition uses a machine with 16 CPUs: 0 is reserved, 2-3 are isolated at boot, 8-11 belong to a
// partition, and 4-5 to a pinned pod. A container that would have all CPUs gets none of the partition. A container in
// the partition keeps its CPUs.
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

// TestReserve checks that online containers run everywhere beside a reserve, and that offline work runs on all other
// CPUs. The reserve has no effect if offline work has its own cores, or would have no CPU left. A container that is
// bound to the reserve stays there.
func TestReserve(t *testing.T) {
	t.Parallel()
	machine := &topology.Topology{Online: set(t, "0-7")}
	for name, c := range map[string]struct {
		taken, reserve, bound string
		cores                 []string
		size                  int
		online, offline       string
	}{
		"none":                    {online: "0-7", offline: "0-7"},
		"two CPUs":                {reserve: "0,4", online: "0-7", offline: "1-3,5-7"},
		"one of them pinned":      {reserve: "0,4", taken: "4", online: "0-3,5-7", offline: "1-3,5-7"},
		"nothing else left":       {reserve: "0,4", taken: "1-3,5-7", online: "0,4", offline: "0,4"},
		"bound to it":             {reserve: "0,4", bound: "0", online: "0", offline: "0"},
		"bound to it and outside": {reserve: "0,4", bound: "0-1", online: "0-1", offline: "1"},
		"cores of its own":        {reserve: "0,4", cores: []string{"3,7", "2,6"}, size: 1, online: "0-2,4-6", offline: "3,7"},
	} {
		p := Of(machine, machine.Online, set(t, c.taken))
		o := capability.Offline{Reserve: set(t, c.reserve), Size: c.size, Low: c.size}
		for _, core := range c.cores {
			o.Cores = append(o.Cores, set(t, core))
		}
		p.Divide(o, nil)
		if got := p.For(Container{Bound: set(t, c.bound)}); got != set(t, c.online) {
			t.Errorf("%s: an online container has %s, want %s", name, got, c.online)
		}
		if got := p.For(Container{Bound: set(t, c.bound), Offline: true}); got != set(t, c.offline) {
			t.Errorf("%s: an offline container has %s, want %s", name, got, c.offline)
		}
		if p.Restricts(false) != (c.size > 0) || p.Restricts(true) != (c.size > 0 || !p.Reserve.IsEmpty()) {
			t.Errorf("%s: restricts online %v, offline %v", name, p.Restricts(false), p.Restricts(true))
		}
	}
}
