package placement

import (
	"slices"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Givable returns the largest part of the free CPUs that leaves a whole core to the shared pool. The core with the
// fewest free CPUs stays; among equal cores, the last.
func Givable(m *alloc.Machine, free, shared cpuset.Set) cpuset.Set {
	var most cpuset.Set
	for _, core := range slices.Backward(m.Topology().Cores) {
		if core.CPUs.IsEmpty() || !core.CPUs.IsSubsetOf(shared) {
			continue
		}
		if left := free.Difference(core.CPUs); left.Size() > most.Size() {
			most = left
		}
	}
	return most
}

// NodeFree is what is free in a NUMA node.
type NodeFree struct {
	ID                  int
	FreeCPUs, FreeCores int
}

// FreeIn returns what is free in each NUMA node. A core belongs to the node of its lowest thread.
func FreeIn(t *topology.Topology, free cpuset.Set) []NodeFree {
	nodes := make([]NodeFree, len(t.Nodes))
	for i := range t.Nodes {
		node := &t.Nodes[i]
		nodes[i] = NodeFree{ID: int(node.ID), FreeCPUs: node.CPUs.Intersect(free).Size()}
		for c := range t.Cores {
			if t.Cores[c].Node == node.ID && t.Cores[c].CPUs.IsSubsetOf(free) {
				nodes[i].FreeCores++
			}
		}
	}
	return nodes
}
