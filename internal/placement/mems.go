package placement

import (
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/topology"
	"github.com/berth-project/berth/internal/workload"
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

// nodesWhere returns the NUMA nodes that are in, empty where the mask cannot hold them.
func nodesWhere(t *topology.Topology, in func(*topology.Node) bool) nodeMask {
	if len(t.Nodes) > maxNodes {
		return 0
	}
	mask := nodeMask(0)
	for i := range t.Nodes {
		if in(&t.Nodes[i]) {
			mask |= 1 << i
		}
	}
	return mask
}

// nodesOf returns the NUMA nodes of CPUs.
func nodesOf(t *topology.Topology, cpus cpuset.Set) nodeMask {
	return nodesWhere(t, func(n *topology.Node) bool { return n.CPUs.Intersects(cpus) })
}

// memoryNodes returns the NUMA nodes that have memory.
func memoryNodes(t *topology.Topology) nodeMask {
	return nodesWhere(t, func(n *topology.Node) bool { return n.MemoryBytes > 0 })
}

// bindable returns how much memory of the nodes may be bound: no huge pages.
func bindable(t *topology.Topology, nodes nodeMask) int64 {
	sum := int64(0)
	for i := range t.Nodes {
		if nodes&(1<<i) != 0 {
			usable := t.Nodes[i].MemoryBytes - t.Nodes[i].HugePageBytes
			sum += min(max(usable, 0), mostBytes) / 100 * (100 - reservePercent)
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
	mask := nodesWhere(t, func(n *topology.Node) bool { return ids.Contains(int(n.ID)) })
	if all := memoryNodes(t); mask&all == all {
		return 0
	}
	return mask
}

// binder decides for the containers of one pod, one after the other, whether their
// memory is bound. It is where it is known to fit, and nowhere else: requested memory
// that is not bound may lie in any node, so all of it counts in each.
type binder struct {
	node   Node
	others *Occupancy
	pod    *workload.Pinning
	// own are the containers of the pod that are bound.
	own []bound
}

// bind returns the nodes that a container is bound to, empty where it may use all
// memory: because the pod asks for huge pages, and which nodes have some left is not
// known; because its memory has no limit or request; because it has CPUs in all
// nodes that have memory; or because it is not known that the reserve would be left.
func (b *binder) bind(wanted bound) nodeMask {
	t := b.node.Machine.Topology()
	all := memoryNodes(t)
	wanted.nodes &= all
	if b.pod.HugePages || wanted.bytes == 0 || wanted.nodes == 0 || wanted.nodes == all {
		return 0
	}
	sum, anywhere := wanted.bytes, b.node.RequestedMemory+b.pod.ScheduledMemory-wanted.request
	for _, bounds := range [...][]bound{b.others.bounds, b.own} {
		for _, one := range bounds {
			anywhere -= one.request
			if one.nodes&wanted.nodes != 0 {
				sum += one.bytes
			}
		}
	}
	if sum+max(anywhere, 0) > bindable(t, wanted.nodes) {
		return 0
	}
	b.own = append(b.own, wanted)
	return wanted.nodes
}

// Narrow returns the NUMA nodes that the containers of a pod may be bound to, of which
// none runs, where others hold o: those in mems where that memory is known to fit, and
// all that have memory where not. It is what Decide would bind with these nodes.
func (n Node) Narrow(o *Occupancy, p *workload.Pinning, mems map[string]cpuset.Set) map[string]cpuset.Set {
	t := n.Machine.Topology()
	b := binder{node: n, others: o, pod: p}
	narrow := make(map[string]cpuset.Set, len(mems))
	var shared nodeMask
	for i, c := range p.Pinned {
		at, found := mems[c.Name]
		if !found {
			continue
		}
		if !p.PerPod || len(narrow) == 0 { // else the pod's memory is bound as one
			shared = b.bind(boundOf(p, i, maskOf(t, at)))
		}
		narrow[c.Name] = shared.ids(t)
	}
	return narrow
}

// boundOf returns what a container, or all of them with PerPod, would bind to nodes.
func boundOf(p *workload.Pinning, i int, nodes nodeMask) bound {
	if p.PerPod {
		return bound{nodes: nodes, bytes: podMemory(p, p.Pinned), request: p.ScheduledMemory}
	}
	return bound{nodes: nodes, bytes: p.Pinned[i].Memory, request: p.Pinned[i].MemoryRequest}
}
