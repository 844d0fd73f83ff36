package placement

import (
	"iter"

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

// bindable returns how much memory of the nodes may be bound in pages of a size: all
// that their pool has, or of kind 0 the rest, less a reserve.
func bindable(t *topology.Topology, nodes nodeMask, kind int64) int64 {
	sum := int64(0)
	for i := range t.Nodes {
		if nodes&(1<<i) == 0 {
			continue
		}
		node := &t.Nodes[i]
		if kind == 0 {
			usable := node.MemoryBytes - node.HugePageBytes
			sum += min(max(usable, 0), mostBytes) / 100 * (100 - reservePercent)
			continue
		}
		for _, pool := range node.HugePages {
			if pool.PageBytes() == kind {
				sum += min(pool.Bytes(), mostBytes)
			}
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
// memory is bound. It is where all of it fits beside what others bind, and nowhere else.
// Requested memory that is not bound counts in each node with a share, as large as
// the node's share of the memory of all local nodes. Huge pages that are not bound count
// wholly in each node: where they are missing nothing can be swapped or moved to make
// room, and the program ends.
type binder struct {
	node   Node
	others *Occupancy
	pod    *workload.Pinning
	// own are the containers of the pod that are bound.
	own []bound
}

// bind returns the nodes that a container is bound to, empty where it may use all
// memory: because its memory has no limit or request; because it has CPUs in all
// nodes that have memory; or because it is not known that it fits.
func (b *binder) bind(wanted need, nodes nodeMask) nodeMask {
	all := memoryNodes(b.node.Machine.Topology())
	nodes &= all
	if wanted.memory == 0 || nodes == 0 || nodes == all {
		return 0
	}
	for one := range wanted.bounds(nodes) {
		if one.bytes > b.room(one) {
			return 0
		}
	}
	for one := range wanted.bounds(nodes) {
		b.own = append(b.own, one)
	}
	return nodes
}

// room returns how many bytes may still be bound to the nodes of a bound, in pages of its
// size, by what requests as much.
func (b *binder) room(wanted bound) int64 {
	t := b.node.Machine.Topology()
	sum, anywhere := int64(0), b.requested(wanted.kind)-wanted.request
	for _, bounds := range [...][]bound{b.others.bounds, b.own} {
		sum += boundBeside(bounds, wanted)
		for _, one := range bounds {
			if one.kind == wanted.kind {
				anywhere -= one.request
			}
		}
	}
	has := bindable(t, wanted.nodes, wanted.kind)
	if anywhere > 0 && wanted.kind == 0 {
		local := localNodes(t)
		if all := bindable(t, local, 0); all > 0 {
			anywhere = int64(float64(anywhere) * (float64(bindable(t, wanted.nodes&local, 0)) / float64(all)))
		}
	}
	return has - sum - max(anywhere, 0)
}

// requested is what all pods request in pages of a size, the binder's own included.
func (b *binder) requested(kind int64) int64 {
	if kind == 0 {
		return b.node.RequestedMemory + b.pod.ScheduledMemory
	}
	return b.node.RequestedHuge.Of(kind) + b.pod.ScheduledHuge.Of(kind)
}

// amounts returns what the pod would bind, and which devices it asks for, and how much of
// that each NUMA node has, so that those which have it come first. Where there is no
// choice there are none.
func (n Node) amounts(o *Occupancy, a *Ask) []alloc.Amount {
	if len(n.Machine.Topology().Nodes) < 2 {
		return nil
	}
	return append(n.deviceAmounts(o, a), n.memoryAmounts(o, a)...)
}

// memoryAmounts are those of what the pod would bind.
func (n Node) memoryAmounts(o *Occupancy, a *Ask) []alloc.Amount {
	t := n.Machine.Topology()
	memory := memoryNodes(t)
	if memory&(memory-1) == 0 {
		return nil
	}
	var all need
	for i := range a.Request.Wants {
		all.add(needOf(&a.Pod, i))
	}
	b := binder{node: n, others: o, pod: &a.Pod}
	var amounts []alloc.Amount
	for wanted := range all.bounds(0) {
		amount := alloc.Amount{Want: wanted.bytes, Free: make([]int64, len(t.Nodes))}
		for i := range amount.Free {
			if wanted.nodes = nodeMask(1) << i; memory&wanted.nodes != 0 {
				amount.Free[i] = max(b.room(wanted), 0)
			}
		}
		amounts = append(amounts, amount)
	}
	return amounts
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
			shared = b.bind(needOf(p, i), maskOf(t, at))
		}
		narrow[c.Name] = shared.ids(t)
	}
	return narrow
}

// need is what a container, or all of them with PerPod, would bind: at most so much, of
// which a part is requested.
type need struct {
	memory, memoryRequest int64
	huge, hugeRequest     workload.HugePages
}

// needOf returns what one of the Wants would bind.
func needOf(p *workload.Pinning, i int) need { return needIn(p, p.Pinned, i) }

// needIn is needOf for one of some containers of the pod.
func needIn(p *workload.Pinning, containers []workload.PinnedContainer, i int) need {
	if p.PerPod {
		return need{podMemory(p, containers), p.ScheduledMemory, p.ScheduledHuge, p.ScheduledHuge}
	}
	c := &containers[i]
	return need{c.Memory, c.MemoryRequest, c.Huge, c.HugeRequest}
}

// add adds what another container would bind, of the memory only what has a bound.
func (n *need) add(other need) {
	if other.memory > 0 {
		n.memory += other.memory
		n.memoryRequest += other.memoryRequest
	}
	n.huge.Add(other.huge, 1)
	n.hugeRequest.Add(other.hugeRequest, 1)
}

// bounds returns each amount of it, bound to nodes.
func (n need) bounds(nodes nodeMask) iter.Seq[bound] {
	return func(yield func(bound) bool) {
		if n.memory > 0 && !yield(bound{nodes, 0, n.memory, n.memoryRequest}) {
			return
		}
		for _, one := range n.huge {
			if one.Bytes > 0 && !yield(bound{nodes, one.Size, one.Bytes, n.hugeRequest.Of(one.Size)}) {
				return
			}
		}
	}
}
