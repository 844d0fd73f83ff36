package placement

import (
	"github.com/berth-project/berth/internal/alloc"
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

// localNodes returns the NUMA nodes that have memory and CPUs. What is not bound comes
// from there first: a node without CPUs is no pod's local one.
func localNodes(t *topology.Topology) nodeMask {
	return nodesWhere(t, func(n *topology.Node) bool { return n.MemoryBytes > 0 && !n.CPUs.IsEmpty() })
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
// memory is bound. It is where it fits beside what others bind, and nowhere else.
// Requested memory that is not bound counts in each node with a share, as large as
// the node's share of the memory of all local nodes.
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
	if wanted.bytes > b.room(wanted.nodes, wanted.request) {
		return 0
	}
	b.own = append(b.own, wanted)
	return wanted.nodes
}

// room returns how many bytes may still be bound to the nodes, of which request is
// requested.
func (b *binder) room(nodes nodeMask, request int64) int64 {
	t := b.node.Machine.Topology()
	sum, anywhere := int64(0), b.node.RequestedMemory+b.pod.ScheduledMemory-request
	for _, bounds := range [...][]bound{b.others.bounds, b.own} {
		for _, one := range bounds {
			anywhere -= one.request
			if one.nodes&nodes != 0 {
				sum += one.bytes
			}
		}
	}
	local := localNodes(t)
	if all := bindable(t, local); anywhere > 0 && all > 0 {
		sum += int64(float64(anywhere) * (float64(bindable(t, nodes&local)) / float64(all)))
	}
	return bindable(t, nodes) - sum
}

// withMemory adds to a request what the pod would bind, and how much of it each NUMA
// node can hold, so that those which hold it come first. A request that binds nothing
// stays as it is.
func (n Node) withMemory(o *Occupancy, a *Ask, r *alloc.Request) *alloc.Request {
	t := n.Machine.Topology()
	memory := memoryNodes(t)
	if a.Pod.HugePages || memory&(memory-1) == 0 {
		return r // with one node there is no choice
	}
	var all bound
	for i := range r.Wants {
		if one := boundOf(&a.Pod, i, 0); one.bytes > 0 {
			all.bytes += one.bytes
			all.request += one.request
		}
	}
	if all.bytes == 0 {
		return r
	}
	b := binder{node: n, others: o, pod: &a.Pod}
	amount := alloc.Amount{Want: all.bytes, Free: make([]int64, len(t.Nodes))}
	for i := range amount.Free {
		if node := nodeMask(1) << i; memory&node != 0 {
			amount.Free[i] = max(b.room(node, all.request), 0)
		}
	}
	with := *r
	with.Amounts = []alloc.Amount{amount}
	return &with
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
