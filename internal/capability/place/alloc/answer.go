package alloc

import (
	"cmp"

	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Vector is the measure of an answer, in the order of the fields. Less is better, with two exceptions. SpreadByPCPUs
// uses Cores, where more is better, instead of Split and Broken. For LeastAllocated, and for DistributeEvenly across
// nodes, more is better in the three Free terms.
type Vector struct {
	// NUMANodes and L3s are how many NUMA nodes and L3 domains the answer touches. A CPU outside all domains touches
	// none.
	NUMANodes int
	// FarDevices is how many of Request.Amounts of devices the answer's NUMA nodes together do not have, Unheld how many
	// of the others.
	FarDevices, Unheld int
	// OffPreferred is how many of its CPUs are outside Request.PreferNodes, or 0 if no node is preferred.
	OffPreferred int
	// Sockets is how many sockets the touched NUMA nodes are in. A node that spans several sockets, or is in none,
	// adds none.
	Sockets int
	// Dies is how many dies the touched NUMA nodes are in. A node that spans several dies adds none. On a machine that
	// shows no dies this is 0, and L3 domains show what is near.
	Dies int
	// Distance is the sum of the distances of each pair of touched NUMA nodes, using the greater of the two
	// directions.
	Distance int
	L3s      int
	// Split is how many cores the answer holds partly: some online threads, not all.
	Split int
	// Broken is how many of the split cores were wholly free.
	Broken int
	// Cores is how many cores the answer touches.
	Cores int
	// FreeL3, FreeNUMA and FreeSocket are the sums of the free CPUs that stay in the touched domains of each kind.
	// Siblings that other pods left empty belong to those pods. Siblings that the pod's own exclusivity will leave
	// empty still count as free here, although Occupied has them. On cores of equal numbers of threads, all answers of
	// equal core terms leave equally many siblings empty.
	FreeL3, FreeNUMA, FreeSocket int
}

// Compare orders vectors by the terms that the policy and the strategy use. It returns a negative number if v is
// better than o, and 0 if these terms are equal.
func (v Vector) Compare(o Vector, b Bind, s Strategy) int {
	cores := cmp.Or(cmp.Compare(v.Split, o.Split), cmp.Compare(v.Broken, o.Broken))
	if b == SpreadByPCPUs {
		cores = cmp.Compare(o.Cores, v.Cores)
	}
	free := cmp.Or(cmp.Compare(v.FreeL3, o.FreeL3), cmp.Compare(v.FreeNUMA, o.FreeNUMA), cmp.Compare(v.FreeSocket, o.FreeSocket))
	if s.Spreads(v.NUMANodes) {
		free = -free
	}
	return cmp.Or(
		cmp.Compare(v.NUMANodes, o.NUMANodes),
		cmp.Compare(v.FarDevices, o.FarDevices),
		cmp.Compare(v.Unheld, o.Unheld),
		cmp.Compare(v.OffPreferred, o.OffPreferred),
		cmp.Compare(v.Sockets, o.Sockets),
		cmp.Compare(v.Dies, o.Dies),
		cmp.Compare(v.Distance, o.Distance),
		cmp.Compare(v.L3s, o.L3s),
		cores,
		free,
	)
}

// Dropped is the set of preferences that an answer had to drop.
type Dropped uint8

const (
	// DroppedExclusive means that a preferred exclusivity was dropped.
	DroppedExclusive Dropped = 1 << iota
	// DroppedNUMAExclusive means that a preferred NUMA exclusivity was dropped.
	DroppedNUMAExclusive
)

// Answer is the placement of a pod. Its slices belong to the Scratch: they are valid until its next use.
type Answer struct {
	// CPUs is the union of the CPUs of all containers.
	CPUs cpuset.Set
	// Each holds the CPUs of each container, in the order of Request.Wants.
	Each []cpuset.Set
	// Occupied is what no other pod may pin: the CPUs, and the empty siblings of a granted PCPULevel.
	Occupied cpuset.Set
	// Nodes holds the ids of the NUMA nodes that the CPUs are in.
	Nodes cpuset.Set
	// L3s holds the ids of the L3 domains that the CPUs are in, in the order of the topology.
	L3s []topology.L3ID
	// OneL3 is true if all CPUs are in L3s[0].
	OneL3  bool
	Vector Vector
	// Exclusive is the exclusivity that was granted.
	Exclusive Exclusive
	// NUMAExclusive is true if a NUMA exclusivity was granted. It becomes Holding.SingleNUMA.
	NUMAExclusive bool
	Dropped       Dropped
	// Exact is true if no better answer exists, for the union and for each container. It is false if the search ended
	// early, after about a millisecond of work. That happens only on a machine of many NUMA nodes or L3 domains that
	// are fragmented in different ways. With DistributeEvenly the NUMA nodes are the best, and each node's share is
	// the best there.
	Exact bool

	machine *Machine
	request Request
}

// Holding returns what the pod of the answer now holds.
func (a *Answer) Holding() Holding {
	return Holding{CPUs: a.CPUs, Exclusive: a.Exclusive, SingleNUMA: a.NUMAExclusive}
}
