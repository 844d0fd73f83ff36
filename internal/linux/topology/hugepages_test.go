package topology_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/linux/topology"
)

// TestHugePages checks that huge pages of every size count, whether free or not, but never more than the node's memory.
// They must reach the scheduler and a recording.
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
		pools := []topology.HugePages{{PageKiB: 2048, Pages: 512}, {PageKiB: 1 << 20, Pages: 2}}
		if got := m.Nodes[0].HugePages; !slices.Equal(got, pools) || m.Nodes[1].HugePages != nil || m.PoolsKnown() {
			t.Errorf("%s: pools %v and %v, known %t; want %v, and none that is believed", what, got, m.Nodes[1].HugePages, m.PoolsKnown(), pools)
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

// TestDevicesThatLie checks that impossible device counts in a NodeTopology are refused, and that the error names the
// field.
func TestDevicesThatLie(t *testing.T) {
	for _, test := range []struct {
		counts []int64
		want   string
	}{{[]int64{4}, ""}, {nil, "devices[0].perNUMANode: 0 of them"}, {[]int64{1, 2}, "devices[0].perNUMANode: 2 of them"}, {[]int64{-1}, "devices[0].perNUMANode[0] -1"}} {
		s := v1alpha1.NodeTopologySpec{
			Online: "0", Cores: []v1alpha1.CPUList{"0"}, NUMANodes: []v1alpha1.NUMANode{{CPUs: "0", Distances: []int64{10}}},
		}
		s.Hash, _ = topology.HashOf(s)
		s.Devices = []v1alpha1.NodeDevice{{Resource: "example.com/gpu", PerNUMANode: test.counts}}
		m, err := topology.FromSpec(s)
		switch {
		case test.want != "" && (!errors.Is(err, topology.ErrInvalid) || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%v: %v, want %s", test.counts, err, test.want)
		case test.want == "" && (err != nil || !slices.Equal(m.Spec().Devices[0].PerNUMANode, test.counts)):
			t.Errorf("%v: %v", test.counts, err)
		}
	}
}

// TestPoolsThatLie checks that impossible huge page pools in a NodeTopology are refused, and that the error names the
// field.
func TestPoolsThatLie(t *testing.T) {
	spec := func(pools ...v1alpha1.HugePagePool) v1alpha1.NodeTopologySpec {
		s := v1alpha1.NodeTopologySpec{
			Online: "0", Cores: []v1alpha1.CPUList{"0"},
			NUMANodes: []v1alpha1.NUMANode{{CPUs: "0", MemoryBytes: 8 << 30, HugePageBytes: 4 << 30, HugePages: pools, Distances: []int64{10}}},
		}
		s.Hash, _ = topology.HashOf(s)
		return s
	}
	const big, small = 1 << 20, 2048
	for _, test := range []struct {
		pools []v1alpha1.HugePagePool
		known bool
		want  string
	}{
		{pools: nil},
		{pools: []v1alpha1.HugePagePool{{PageKiB: big, Pages: 4}}, known: true},
		{pools: []v1alpha1.HugePagePool{{PageKiB: small, Pages: 512}, {PageKiB: big, Pages: 3}}, known: true},
		{pools: []v1alpha1.HugePagePool{{PageKiB: big, Pages: 3}}},
		{pools: []v1alpha1.HugePagePool{{PageKiB: big, Pages: 5}}, want: "numaNodes[0].hugePages[0].pages 5"},
		{pools: []v1alpha1.HugePagePool{{PageKiB: big, Pages: 2}, {PageKiB: small, Pages: 1}}, want: "numaNodes[0].hugePages[1].pageKiB 2048"},
		{pools: []v1alpha1.HugePagePool{{PageKiB: big, Pages: 1 << 40}}, want: "numaNodes[0].hugePages[0].pages"},
		{pools: []v1alpha1.HugePagePool{{PageKiB: 1 << 40, Pages: 1 << 40}}, want: "numaNodes[0].hugePages[0].pages"},
		{pools: []v1alpha1.HugePagePool{{PageKiB: 0, Pages: 1}}, want: "numaNodes[0].hugePages[0].pageKiB 0"},
		{pools: make([]v1alpha1.HugePagePool, 9), want: "numaNodes[0].hugePages: 9 of them"},
	} {
		s := spec(test.pools...)
		if test.want != "" {
			s.Hash = spec().Hash
		}
		m, err := topology.FromSpec(s)
		switch {
		case test.want != "" && (!errors.Is(err, topology.ErrInvalid) || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%v: %v, want %s", test.pools, err, test.want)
		case test.want == "" && (err != nil || m.PoolsKnown() != test.known):
			t.Errorf("%v: %v, want pools known %t", test.pools, err, test.known)
		}
	}
}
