package topology_test

import (
	"testing"
	"testing/fstest"

	"github.com/berth-project/berth/internal/topology"
)

// Huge pages of every size count, free or not, and never more than there is memory;
// they reach the scheduler and a recording.
func TestHugePages(t *testing.T) {
	tree := fstest.MapFS{}
	for name, text := range map[string]string{
		"cpu/online": "0-1", "cpu/cpu0/topology/thread_siblings_list": "0", "cpu/cpu1/topology/thread_siblings_list": "1",
		"node/online": "0-1", "node/node0/cpulist": "0", "node/node1/cpulist": "1",
		"node/node0/distance": "10 20", "node/node1/distance": "20 10",
		"node/node0/meminfo": "Node 0 MemTotal:  8388608 kB\nNode 0 HugePages_Total:     1", "node/node1/meminfo": "Node 1 MemTotal: 1048576 kB",
		"node/node0/hugepages/hugepages-2048kB/nr_hugepages":    "512",
		"node/node0/hugepages/hugepages-2048kB/free_hugepages":  "500",
		"node/node0/hugepages/hugepages-1048576kB/nr_hugepages": "2",
		"node/node0/hugepages/other/nr_hugepages":               "9",
		"node/node1/hugepages/hugepages-2048kB/nr_hugepages":    "99999999999",
	} {
		tree["sys/devices/system/"+name] = &fstest.MapFile{Data: []byte(text + "\n")}
	}
	check := func(what string, m *topology.Topology) {
		t.Helper()
		if got, want := m.Nodes[0].HugePageBytes, int64(3)<<30; got != want {
			t.Errorf("%s: node 0 has %d bytes of huge pages, want %d", what, got, want)
		}
		if got := m.Nodes[1].HugePageBytes; got != m.Nodes[1].MemoryBytes {
			t.Errorf("%s: node 1 has %d bytes of huge pages and %d of memory", what, got, m.Nodes[1].MemoryBytes)
		}
	}
	m, err := topology.Discover(tree)
	if err != nil {
		t.Fatal(err)
	}
	check("discovered", m)
	published, err := topology.FromSpec(m.Spec())
	if err != nil {
		t.Fatal(err)
	}
	check("published", published)
	recorded, err := topology.Capture(tree)
	if err != nil {
		t.Fatal(err)
	}
	check("recorded", discover(t, recorded))
}
