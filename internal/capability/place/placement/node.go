package placement

import (
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Node is one node as far as decisions depend on it, except what its pods hold. It is a value; the caller fills it from
// the node's labels, allocatable and sum of requests. Its methods do not change it, and take its address because it has
// half a kilobyte.
type Node struct {
	// Machine is nil if the node's CPUs are unknown: then nothing can be pinned there, and ordinary pods are not
	// counted.
	Machine *alloc.Machine
	Policy  NodePolicy
	// AllocatableMilli is the node's allocatable CPU in thousandths.
	AllocatableMilli int64
	// RequestedMilli is the sum of the requests of all pods of the node, pinned
	// or not, in thousandths, without the pod to be decided.
	RequestedMilli int64
	// RequestedMemory is the same sum of memory, in bytes. Where unbound memory lies is not known.
	RequestedMemory int64
	// RequestedHuge is the same sum of huge pages.
	RequestedHuge workload.HugePages
	// RequestedDevices is the same sum of devices, by CountDevices.
	RequestedDevices Devices
	// PreferNodes are NUMA nodes, by the kernel's number, in which the pod is better off, for example near its devices.
	PreferNodes cpuset.Set
	// SpanNodes are two or more NUMA nodes, or none, that each have devices of the pod: it gets CPUs of each, if
	// possible.
	SpanNodes cpuset.Set
	// Claims are the devices that the pod's claims ask for and do not have yet; nil if none are known.
	Claims *Claims
}

// Claims are numbers of devices, and how many each NUMA node has left, in the order of the
// topology's nodes.
type Claims []alloc.Amount

// Surplus returns how much CPU, in thousandths, may still be requested on the node. It is negative if too much was
// given out.
//
// The rule applies to every pod, because no other component of a cluster enforces it. A pinned container counts with
// the larger of its CPUs (siblings left empty included) and its request. The sum of these and of all other requests
// must not exceed the node's allocatable, nor the CPUs that run containers: online, not reserved and not isolated. For
// example, a pinned pod with request 1 and limit 4 has 4 CPUs for itself, of which a sum of requests shows 1.
func (n *Node) Surplus(o *Occupancy) int64 {
	return n.limit() - n.RequestedMilli - o.ExtraMilli
}

// Room checks that a pod with this request, in thousandths, satisfies the rule of Surplus. Ordinary pods need no other
// check. A pod without a request always has room, and so has every pod on a node without a machine, where the rule
// cannot be checked.
func (n *Node) Room(o *Occupancy, requestMilli int64) Refusal {
	if n.Machine == nil || requestMilli <= 0 {
		return Refusal{}
	}
	if left := n.Surplus(o); requestMilli > left {
		return Refusal{Code: Promised, Want: requestMilli, Have: max(left, 0)}
	}
	return Refusal{}
}

func (n *Node) limit() int64 {
	if n.Machine == nil {
		return n.AllocatableMilli
	}
	return min(n.AllocatableMilli, int64(n.Machine.Topology().Containers().Size())*milli)
}

// Given returns the CPUs that a pod of a cluster may get. Efficiency cores are only for pods that ask for them, which
// is not possible in a cluster.
func (n *Node) Given() cpuset.Set {
	return n.Machine.Pinnable().Difference(n.Machine.Topology().Efficiency())
}

// Free returns the CPUs that pods may still get beside the taken ones, and their fragmentation. On a full machine the
// remaining CPUs are the shared pool's, and nothing is fragmented.
func (n *Node) Free(taken cpuset.Set) (cpuset.Set, Fragmentation) {
	t, given := n.Machine.Topology(), n.Given()
	untaken, shared := given.Difference(taken), t.Containers().Difference(taken)
	free := Givable(n.Machine, untaken, shared)
	if free.IsEmpty() {
		return free, Fragmentation{}
	}
	f := FragmentationOf(t, given, taken)
	f.FreeCPUs, f.Shared = free.Size(), f.FreeCPUs-free.Size()
	f.LargestInNUMANode, f.LargestInL3 = 0, 0
	for i := range t.Nodes {
		n.enlarge(&f.LargestInNUMANode, t.Nodes[i].CPUs.Intersect(untaken), shared)
	}
	for i := range t.L3 {
		n.enlarge(&f.LargestInL3, t.L3[i].CPUs.Intersect(untaken), shared)
	}
	return free, f
}

// enlarge raises largest to what fits into a domain of which these CPUs are untaken.
func (n *Node) enlarge(largest *int, untaken, shared cpuset.Set) {
	if untaken.Size() > *largest { // else it cannot be more
		*largest = max(*largest, Givable(n.Machine, untaken, shared).Size())
	}
}

// Fragmentation returns what pods may still get, and how it lies: as Free, without as many CPUs as are unknown.
func (n *Node) Fragmentation(o *Occupancy) Fragmentation {
	_, f := n.Free(o.Taken.CPUs())
	f.FreeCPUs = max(0, f.FreeCPUs-o.Unknown)
	f.LargestInNUMANode, f.LargestInL3 = min(f.LargestInNUMANode, f.FreeCPUs), min(f.LargestInL3, f.FreeCPUs)
	return f
}

// WholeL3s returns how many L3 domains no pod has CPUs of.
func (n *Node) WholeL3s(o *Occupancy) int {
	return FragmentationOf(n.Machine.Topology(), n.Given(), o.Taken.CPUs()).FreeL3
}

// most returns how many CPUs pods could still get if the free ones lay well: a whole core stays with the shared pool.
func (n *Node) most(o *Occupancy) int {
	free := n.Given().Difference(o.Taken.CPUs())
	most := Givable(n.Machine, free, n.Machine.Topology().Containers().Difference(o.Taken.CPUs())).Size()
	if most == 0 {
		most = max(0, free.Size()-threads(n.Machine))
	}
	return most - o.Unknown
}
