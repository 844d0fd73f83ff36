package mover_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/capability/localize/mover"
	"github.com/berth-project/berth/internal/linux/pages"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/plain"
)

// TestNodes reads two memory nodes with a tier and one without.
func TestNodes(t *testing.T) {
	t.Parallel()
	h := plain.New(t)
	for name, text := range map[string]string{
		"sys/devices/virtual/memory_tiering/memory_tier4/nodelist":  "0\n",
		"sys/devices/virtual/memory_tiering/memory_tier22/nodelist": "2\n",
		"sys/devices/virtual/memory_tiering/power/control":          "auto\n",
		"sys/devices/system/node/node0/meminfo":                     "Node 0 MemTotal: 8 kB\nNode 0 MemFree: 4 kB\n",
		"sys/devices/system/node/node2/meminfo":                     "Node 2 MemTotal: 16 kB\nNode 2 MemFree: 16 kB\n",
		"proc/zoneinfo":                                             "Node 0, zone   Normal\n  pages free     1\n        min      1\n        low      2\n        high     3\nNode 2, zone   Normal\n  pages free     4\n",
	} {
		h.Write(name, text)
	}
	root := h.Root()
	cpus := cpuset.Set{}.Add(0)
	got, err := mover.Nodes(root, &topology.Topology{Nodes: []topology.Node{
		{ID: 0, CPUs: cpus, MemoryBytes: 8192, Distances: []int{10, 20, 30}}, {ID: 1, CPUs: cpus.Add(1)}, {ID: 2, MemoryBytes: 16384},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := locality.Nodes{
		{ID: 0, CPUs: cpus, Bytes: 8192, Distances: []int{10, 20, 30}, Tier: 4}, {ID: 1, CPUs: cpus.Add(1)}, {ID: 2, Bytes: 16384, Tier: 22},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(cpuset.Set{})); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	memory, err := mover.Memory(root, got)
	if err != nil {
		t.Fatal(err)
	}
	all := map[int]locality.NodeMemory{
		0: {Total: 8192, Free: 4096, Min: 4096, Low: 8192, High: 12288}, 2: {Total: 16384, Free: 16384},
	}
	if diff := cmp.Diff(all, memory); diff != "" {
		t.Errorf("memory (-want +got):\n%s", diff)
	}
	if _, err := mover.Memory(root, append(got, locality.Node{ID: 3, Bytes: 4096})); !errors.Is(err, pages.ErrNode) {
		t.Errorf("a node whose memory went offline: %v", err)
	}
}
