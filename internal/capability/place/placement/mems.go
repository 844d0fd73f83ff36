package placement

import (
	"iter"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// nodeMask is a set of NUMA nodes by their index in Topology.Nodes. Memory is never narrowed on a machine with more
// nodes than bits.
type nodeMask uint64

const maxNodes = 64

// reservePercent of a node's memory is never bound, for the kernel and for memory that cannot be bound.
const reservePercent = 10

// mostBytes bounds the memory of a node, so that a wrong topology cannot make a sum overflow.
const mostBytes = 1 << 50

// nodesWhere returns the NUMA nodes for which in is true, empty if the mask cannot hold them.
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

func nodesOf(t *topology.Topology, cpus cpuset.Set) nodeMask {
	return nodesWhere(t, func(n *topology.Node) bool { return n.CPUs.Intersects(cpus) })
}

// memoryNodes returns the NUMA nodes that have memory.
func memoryNodes(t *topology.Topology) nodeMask {
	return nodesWhere(t, func(n *topology.Node) bool { return n.MemoryBytes > 0 })
}

// localNodes returns the NUMA nodes that have memory and CPUs. Unbound memory comes from these nodes first: a node
// without CPUs is no pod's local node.
func localNodes(t *topology.Topology) nodeMask {
	return nodesWhere(t, func(n *topology.Node) bool { return n.MemoryBytes > 0 && !n.CPUs.IsEmpty() })
}

// bindable returns how much memory of the nodes may be bound in pages of a size: their whole pool, or for kind 0 the
// memory outside huge pages, less a reserve.
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

// ids returns the kernel's numbers of the nodes. For the empty mask it returns all nodes with memory, or all nodes if
// no memory is known.
func (mask nodeMask) ids(t *topology.Topology) cpuset.Set {
	if mask == 0 {
		return t.MemoryNodes()
	}
	var chosen cpuset.Set
	for i := range t.Nodes { // no more than maxNodes, because the mask is not empty
		if mask&(1<<i) != 0 {
			chosen = chosen.Add(int(t.Nodes[i].ID))
		}
	}
	return chosen
}

// maskOf is the inverse of ids: the mask of a list of node numbers. It is empty if the list binds nothing, because it
// has all nodes with memory or no node of this machine.
func maskOf(t *topology.Topology, ids cpuset.Set) nodeMask {
	mask := nodesWhere(t, func(n *topology.Node) bool { return ids.Contains(int(n.ID)) })
	if all := memoryNodes(t); mask&all == all {
		return 0
	}
	return mask
}

// binder decides for the containers of one pod, one after the other, whether their memory is bound. It is bound only
// where all of it fits beside what others bind. Unbound requested memory counts in each node with a share: the node's
// share of the memory of all local nodes. Unbound huge pages count wholly in each node: if they are missing, nothing
// can be swapped or moved to make room, and the program ends.
type binder struct {
	node   Node
	others *Occupancy
	pod    *workload.Pinning
	// local has the local nodes, and localBytes their memory.
	local      nodeMask
	localBytes int64
	// own are the pod's containers that are bound.
	own []bound
}

func (n *Node) binder(o *Occupancy, p *workload.Pinning) binder {
	local := localNodes(n.Machine.Topology())
	return binder{node: *n, others: o, pod: p, local: local, localBytes: bindable(n.Machine.Topology(), local, 0)}
}

// bind returns the nodes that a container is bound to, or 0 if it may use all memory. A container may use all memory if
// its memory has no limit or request, or is not known to fit. It may also do so if it has CPUs in all nodes that have
// memory.
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

// room returns how many bytes may still be bound to the nodes of wanted, in pages of its size, by a container with its
// request.
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
	if anywhere > 0 && wanted.kind == 0 && b.localBytes > 0 {
		anywhere = int64(float64(anywhere) * (float64(bindable(t, wanted.nodes&b.local, 0)) / float64(b.localBytes)))
	}
	return has - sum - max(anywhere, 0)
}

// requested returns what all pods request in pages of a size, the binder's own included.
func (b *binder) requested(kind int64) int64 {
	if kind == 0 {
		return b.node.RequestedMemory + b.pod.Besides.ScheduledMemory
	}
	return b.node.RequestedHuge.Of(kind) + b.pod.Besides.ScheduledHuge.Of(kind)
}

// amounts returns the memory and devices that the pod needs, and how much each NUMA node has, so that nodes with enough
// come first.
func (n *Node) amounts(o *Occupancy, a *Ask) []alloc.Amount {
	return append(n.deviceAmounts(o, a), n.memoryAmounts(o, a)...)
}

// memoryAmounts are the memory amounts of the pod. There are none on a machine with memory in one node: there is no
// choice.
func (n *Node) memoryAmounts(o *Occupancy, a *Ask) []alloc.Amount {
	t := n.Machine.Topology()
	memory := memoryNodes(t)
	if memory&(memory-1) == 0 {
		return nil
	}
	var all need
	for i := range a.Request.Wants {
		all.add(needOf(&a.Pod, i))
	}
	b := n.binder(o, &a.Pod)
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

// Narrow returns the NUMA nodes that the containers of a pod that does not run yet may be bound to, where others hold
// o. For each container it is the nodes in mems if the memory is known to fit, else all nodes with memory. It is what
// Decide would bind with these nodes.
func (n *Node) Narrow(o *Occupancy, p *workload.Pinning, mems map[string]cpuset.Set) map[string]cpuset.Set {
	t := n.Machine.Topology()
	b := n.binder(o, p)
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

// need is the most that a container, or all of them with PerPod, would bind, and the requested part of it.
type need struct {
	memory, memoryRequest int64
	huge, hugeRequest     workload.HugePages
}

// needOf returns the need of one of the Wants.
func needOf(p *workload.Pinning, i int) need { return needIn(p, p.Pinned, i) }

// needIn is needOf for a container of a given list.
func needIn(p *workload.Pinning, containers []workload.PinnedContainer, i int) need {
	if p.PerPod {
		return need{podMemory(p, containers), p.Besides.ScheduledMemory, p.Besides.ScheduledHuge, p.Besides.ScheduledHuge}
	}
	c := &containers[i]
	return need{c.Memory, c.MemoryRequest, c.Huge, c.HugeRequest}
}

// add adds the need of another container; memory is added only if it has a bound.
func (n *need) add(other need) {
	if other.memory > 0 {
		n.memory += other.memory
		n.memoryRequest += other.memoryRequest
	}
	n.huge.Add(other.huge, 1)
	n.hugeRequest.Add(other.hugeRequest, 1)
}

// bounds returns each amount of the need, bound to nodes.
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
