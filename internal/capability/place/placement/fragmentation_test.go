package placement_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

func TestFragmentation(t *testing.T) {
	// Two NUMA nodes of two L3 domains each, with two cores of two threads per domain.
	machine := describedMachine(t, `{"cores": [{"cpus": "0-1"}, {"cpus": "2-3"}, {"cpus": "4-5"}, {"cpus": "6-7"},
		{"cpus": "8-9"}, {"cpus": "10-11"}, {"cpus": "12-13"}, {"cpus": "14-15"}],
		"numaNodes": [{"id": 0, "cpus": "0-7"}, {"id": 1, "cpus": "8-15"}],
		"l3": [{"id": 0, "cpus": "0-3"}, {"id": 1, "cpus": "4-7"}, {"id": 2, "cpus": "8-11"}, {"id": 3, "cpus": "12-15"}]}`)
	for _, test := range []struct {
		name, pinnable, taken string
		want                  placement.Fragmentation
	}{
		{"empty", "0-15", "", placement.Fragmentation{FreeCPUs: 16, LargestInNUMANode: 8, LargestInL3: 4, FreeCores: 8, FreeL3: 4, FreeNUMANodes: 2}},
		{"full", "0-15", "0-15", placement.Fragmentation{}},
		{"one domain", "0-15", "0-3", placement.Fragmentation{FreeCPUs: 12, LargestInNUMANode: 8, LargestInL3: 4, FreeCores: 6, FreeL3: 3, FreeNUMANodes: 1}},
		{
			"a thread of each domain", "0-15", "0,4,8,12",
			placement.Fragmentation{FreeCPUs: 12, LargestInNUMANode: 6, LargestInL3: 3, FreeCores: 4, BrokenCores: 4, Scattered: 12, Percent: 100},
		},
		{
			"one thread", "0-15", "5",
			placement.Fragmentation{FreeCPUs: 15, LargestInNUMANode: 8, LargestInL3: 4, FreeCores: 7, FreeL3: 3, FreeNUMANodes: 1, BrokenCores: 1, Scattered: 3, Percent: 20},
		},
		{"reserved is not in use", "1-15", "", placement.Fragmentation{FreeCPUs: 15, LargestInNUMANode: 8, LargestInL3: 4, FreeCores: 8, FreeL3: 4, FreeNUMANodes: 2}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := placement.FragmentationOf(machine, cpusOfList(t, test.pinnable), cpusOfList(t, test.taken))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestFragmentationWithoutL3(t *testing.T) {
	machine := describedMachine(t, `{"cores": [{"cpus": "0"}, {"cpus": "1"}, {"cpus": "2"}, {"cpus": "3"}],
		"numaNodes": [{"id": 0, "cpus": "0-1"}, {"id": 1, "cpus": "2-3"}]}`)
	got := placement.FragmentationOf(machine, cpusOfList(t, "0-3"), cpusOfList(t, "0"))
	want := placement.Fragmentation{FreeCPUs: 3, LargestInNUMANode: 2, FreeCores: 3, FreeNUMANodes: 1, Scattered: 1, Percent: 33}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func describedMachine(t *testing.T, text string) *topology.Topology {
	t.Helper()
	machine, err := topology.Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return machine
}

func cpusOfList(t *testing.T, list string) cpuset.Set {
	t.Helper()
	set, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return set
}
