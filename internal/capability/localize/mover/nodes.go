package mover

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/pages"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// tiersDir has a directory for each memory tier, since Linux 6.1.
const tiersDir = "sys/devices/virtual/memory_tiering"

// Nodes returns the NUMA nodes of a host for package locality, with the tiers of their memory. On a kernel without
// tiers all memory is in the same tier.
func Nodes(root *hostfs.Root, t *topology.Topology) (locality.Nodes, error) {
	tiers, err := tiersOf(root.FS())
	if err != nil {
		return nil, fmt.Errorf("memory tiers: %w", err)
	}
	nodes := make(locality.Nodes, 0, len(t.Nodes))
	for _, n := range t.Nodes {
		id := int(n.ID)
		nodes = append(nodes, locality.Node{ID: id, CPUs: n.CPUs, Distances: n.Distances, Bytes: n.MemoryBytes, Tier: tiers[id]})
	}
	return nodes, nil
}

// tiersOf returns the tier of each node.
func tiersOf(tree fs.FS) (map[int]int, error) {
	lists, err := fs.Glob(tree, path.Join(tiersDir, "memory_tier*", "nodelist"))
	if err != nil {
		return nil, fmt.Errorf("find: %w", err)
	}
	tiers := map[int]int{}
	for _, name := range lists {
		tier, err := strconv.Atoi(strings.TrimPrefix(path.Base(path.Dir(name)), "memory_tier"))
		if err != nil {
			continue // memory_tiering has files of other names
		}
		data, err := fs.ReadFile(tree, name)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		nodes, err := cpuset.Parse(strings.TrimSpace(string(data)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for node := range nodes.All() {
			tiers[node] = tier
		}
	}
	return tiers, nil
}

// Present returns the present or recorded memory of all nodes that have memory, by id.
func Present(files pages.Files) (map[int]locality.NodeMemory, error) {
	nodes, err := pages.ReadNodes(files)
	if err != nil {
		return nil, fmt.Errorf("memory of NUMA nodes: %w", err)
	}
	all := make(map[int]locality.NodeMemory, len(nodes))
	for id, now := range nodes {
		all[id] = locality.NodeMemory(now)
	}
	return all, nil
}

// Memory returns what Present returns. The error is pages.ErrNode if a node that has bytes has no memory now, as in a
// recording whose zoneinfo lacks the node: then no node has a known room.
func Memory(files pages.Files, nodes locality.Nodes) (map[int]locality.NodeMemory, error) {
	all, err := Present(files)
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		if _, has := all[n.ID]; n.Bytes > 0 && !has {
			return nil, fmt.Errorf("memory of node %d: %w", n.ID, pages.ErrNode)
		}
	}
	return all, nil
}
