package placement

import (
	"github.com/berth-project/berth/internal/alloc"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/workload"
)

// Node is one node as far as decisions depend on it, apart from what its pods
// hold. It is a value; whoever decides fills it from the node's labels,
// allocatable and sum of requests.
type Node struct {
	// Machine is nil where the node's CPUs are not known: nothing can be pinned
	// there, and ordinary pods are not counted.
	Machine *alloc.Machine
	Policy  NodePolicy
	// AllocatableMilli is the node's allocatable CPU in thousandths.
	AllocatableMilli int64
	// RequestedMilli is the sum of the requests of all pods of the node, pinned
	// or not, in thousandths, without the pod to be decided.
	RequestedMilli int64
	// RequestedMemory is the same sum of memory, in bytes: where it lies is not known
	// but of what is bound.
	RequestedMemory int64
	// RequestedHuge is the same sum of huge pages.
	RequestedHuge workload.HugePages
	// RequestedDevices is the same sum of devices, by CountDevices.
	RequestedDevices Devices
	// PreferNodes are NUMA nodes by the kernel's number that the pod is better
	// off in, for example because its devices are there.
	PreferNodes cpuset.Set
	// SpanNodes are those, if two or more, of which each has devices of the pod: it takes
	// CPUs of each, if it can.
	SpanNodes cpuset.Set
	// Claims are the devices that the pod's claims ask for and do not have yet; nil where
	// none are known.
	Claims *Claims
}

// Claims are numbers of devices, and how many each NUMA node has left, in the order of the
// topology's nodes.
type Claims []alloc.Amount

// Surplus returns how much CPU, in thousandths, may still be requested on the
// node. It is negative where too much was given out.
//
// The rule holds for every pod, because nothing else in a cluster knows it: the
// sum over pinned containers of the larger of what they have (siblings left
// empty included) and what they request, plus all other requests, stays within
// the node's allocatable and within the CPUs that run containers at all, which
// are those online, not reserved and not isolated. A pod with request 1 and
// limit 4 has 4 CPUs for itself when pinned, of which a sum of requests shows 1.
func (n Node) Surplus(o *Occupancy) int64 {
	return n.limit() - n.RequestedMilli - o.ExtraMilli
}

// Room says whether a pod that requests this much, in thousandths, leaves the
// rule of Surplus in force. For ordinary pods it is all there is to ask. One
// that requests nothing always has room, and so has every pod on a node without
// a machine, where the rule cannot be known.
func (n Node) Room(o *Occupancy, requestMilli int64) Refusal {
	if n.Machine == nil || requestMilli <= 0 {
		return Refusal{}
	}
	if left := n.Surplus(o); requestMilli > left {
		return Refusal{Code: Promised, Want: requestMilli, Have: max(left, 0)}
	}
	return Refusal{}
}

func (n Node) limit() int64 {
	if n.Machine == nil {
		return n.AllocatableMilli
	}
	return min(n.AllocatableMilli, int64(pool(n.Machine).Size())*milli)
}

// Given returns the CPUs that a pod of a cluster may get: efficiency cores are only for
// those who ask for them, which a pod cannot.
func (n Node) Given() cpuset.Set { return n.Machine.Pinnable().Difference(efficiency(n.Machine)) }

// Fragmentation looks at those that are free.
func (n Node) Fragmentation(o *Occupancy) Fragmentation {
	return FragmentationOf(n.Machine.Topology(), n.Given(), o.Taken.CPUs())
}

// pool returns the CPUs that run containers: pinned ones and the shared pool.
func pool(m *alloc.Machine) cpuset.Set {
	t := m.Topology()
	return t.Online.Difference(t.Reserved).Difference(t.Isolated)
}
