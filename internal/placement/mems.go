package placement

import (
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/topology"
)

// nodeMask is a set of NUMA nodes by their place in Topology.Nodes. A machine
// with more nodes than bits never has memory narrowed.
type nodeMask uint64

const maxNodes = 64

// reservePercent of a node's memory is never bound, for the kernel and for
// what cannot be bound.
const reservePercent = 10

// mostBytes bounds the memory of a node, so that a topology that lies cannot
// make a sum overflow.
const mostBytes = 1 << 50

// nodesOf returns the NUMA nodes of CPUs, empty where the mask cannot hold them.
func nodesOf(t *topology.Topology, cpus cpuset.Set) nodeMask {
	if len(t.Nodes) > maxNodes {
		return 0
	}
	mask := nodeMask(0)
	for i := range t.Nodes {
		if t.Nodes[i].CPUs.Intersects(cpus) {
			mask |= 1 << i
		}
	}
	return mask
}

// memoryNodes returns the NUMA nodes that have memory, empty where the mask
// cannot hold them.
func memoryNodes(t *topology.Topology) nodeMask {
	if len(t.Nodes) > maxNodes {
		return 0
	}
	mask := nodeMask(0)
	for i := range t.Nodes {
		if t.Nodes[i].MemoryBytes > 0 {
			mask |= 1 << i
		}
	}
	return mask
}

// bindable returns how much memory of the nodes may be bound.
func bindable(t *topology.Topology, nodes nodeMask) int64 {
	sum := int64(0)
	for i := range t.Nodes {
		if nodes&(1<<i) != 0 {
			sum += min(t.Nodes[i].MemoryBytes, mostBytes) / 100 * (100 - reservePercent)
		}
	}
	return sum
}

// ids returns the kernel's numbers of the nodes; for the empty mask those of
// all nodes with memory, and where no memory is known, of all nodes.
func (mask nodeMask) ids(t *topology.Topology) cpuset.Set {
	var all, known, chosen cpuset.Set
	for i, node := range t.Nodes {
		all = all.Add(int(node.ID))
		if node.MemoryBytes > 0 {
			known = known.Add(int(node.ID))
		}
		if i < maxNodes && mask&(1<<i) != 0 {
			chosen = chosen.Add(int(node.ID))
		}
	}
	switch {
	case mask != 0:
		return chosen
	case !known.IsEmpty():
		return known
	}
	return all
}

// maskOf is the way back: the mask of a list of node numbers, empty where the
// list binds nothing, because it holds all memory or no node of this machine.
func maskOf(t *topology.Topology, ids cpuset.Set) nodeMask {
	if len(t.Nodes) > maxNodes {
		return 0
	}
	mask := nodeMask(0)
	for i := range t.Nodes {
		if ids.Contains(int(t.Nodes[i].ID)) {
			mask |= 1 << i
		}
	}
	if all := memoryNodes(t); mask&all == all {
		return 0
	}
	return mask
}

// narrowed returns the nodes that a container with these CPUs is bound to,
// empty where it may use all memory: because nobody said how much it uses,
// because it has CPUs in all nodes that have memory, or because what is bound
// there already and its own would not leave the reserve. mates are the
// containers of the same pod that were looked at before.
func narrowed(t *topology.Topology, o *Occupancy, mates []bound, own bound) nodeMask {
	all := memoryNodes(t)
	nodes := own.nodes & all
	if own.bytes == 0 || nodes == 0 || nodes == all {
		return 0
	}
	sum := own.bytes + o.boundTo(nodes)
	for _, mate := range mates {
		if mate.nodes&nodes != 0 {
			sum += mate.bytes
		}
	}
	if sum > bindable(t, nodes) {
		return 0
	}
	return nodes
}
