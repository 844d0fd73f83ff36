package alloc

import (
	"cmp"

	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/topology"
)

// Vector is what an answer is judged by, in the order of the fields. Less is
// better, except that SpreadByPCPUs looks at Cores instead of Split and Broken
// and wants many, and LeastAllocated wants the three Free terms great; so
// does DistributeEvenly across nodes.
type Vector struct {
	// NUMANodes and L3s are how many of them the answer touches. A CPU outside
	// any touches none.
	NUMANodes int
	// Unheld is how many of Request.Amounts its NUMA nodes do not have together.
	Unheld int
	// OffPreferred is how many of its CPUs are outside Request.PreferNodes, 0
	// where nothing is preferred.
	OffPreferred int
	// Sockets is how many sockets the touched NUMA nodes are in. A node across
	// several sockets, or in none, counts for none.
	Sockets int
	// Dies is how many dies the touched NUMA nodes are in. A node across several dies, or on a
	// machine that shows none, counts for none: there L3 domains say what is near.
	Dies int
	// Distance is the sum of the distances of each pair of touched NUMA nodes,
	// of the two directions the greater one.
	Distance int
	L3s      int
	// Split is how many cores it holds partly: some online threads, not all.
	Split int
	// Broken is how many of those were wholly free.
	Broken int
	// Cores is how many cores it touches.
	Cores int
	// FreeL3, FreeNUMA and FreeSocket are the free CPUs that stay in the
	// touched domains of the kind, summed. Siblings that other pods left empty
	// are theirs; those that the pod's own exclusivity is about to leave empty
	// still count as free here, though Occupied has them: on cores of as many
	// threads each, all answers of equal core terms leave as many empty.
	FreeL3, FreeNUMA, FreeSocket int
}

// Compare orders vectors: negative when v is better than o, 0 when the two
// differ in nothing that the policy and the strategy look at.
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

// Dropped says which preferences an answer had to give up.
type Dropped uint8

const (
	// DroppedExclusive is a preferred exclusivity.
	DroppedExclusive Dropped = 1 << iota
	// DroppedNUMAExclusive is a preferred NUMA exclusivity.
	DroppedNUMAExclusive
)

// Answer is where a pod goes. The slices in it are the Scratch's: they are
// valid until its next use.
type Answer struct {
	// CPUs is the union of all containers.
	CPUs cpuset.Set
	// Each holds the CPUs of each container, in the order of Request.Wants.
	Each []cpuset.Set
	// Occupied is what no other pod may pin: CPUs, and the empty siblings of a
	// granted PCPULevel.
	Occupied cpuset.Set
	// Nodes holds the ids of the NUMA nodes that the CPUs are in.
	Nodes cpuset.Set
	// L3s holds the ids of the L3 domains that the CPUs are in, in the order of
	// the topology.
	L3s []topology.L3ID
	// OneL3 says that all CPUs are in L3s[0].
	OneL3  bool
	Vector Vector
	// Exclusive is the exclusivity that was granted.
	Exclusive Exclusive
	// NUMAExclusive says that a NUMA exclusivity was granted: what
	// Holding.SingleNUMA becomes.
	NUMAExclusive bool
	Dropped       Dropped
	// Exact says that no better answer exists, for the union and for each
	// container. It is false where the search ended early, after about a
	// millisecond of work: that takes a machine of many NUMA nodes or L3 domains,
	// fragmented in unlike ways. With DistributeEvenly the NUMA nodes are the best,
	// and in each the best of its share.
	Exact bool

	machine *Machine
	request Request
}

// Holding returns what the answer's pod holds from now on.
func (a *Answer) Holding() Holding {
	return Holding{CPUs: a.CPUs, Exclusive: a.Exclusive, SingleNUMA: a.NUMAExclusive}
}
