package alloc

import "github.com/berth-project/berth/internal/cpuset"

// Bind says how the CPUs of an answer lie on cores.
type Bind uint8

const (
	// FullPCPUs asks for whole cores.
	FullPCPUs Bind = iota
	// SpreadByPCPUs asks for as many different cores as possible.
	SpreadByPCPUs
)

// Strength separates a preference from a condition.
type Strength uint8

const (
	// Preferred is given up where it cannot be had.
	Preferred Strength = iota
	// Required is a reason to refuse.
	Required
)

// Exclusive says what an answer shares with no other pod.
type Exclusive uint8

const (
	// NotExclusive shares everything but the CPUs themselves.
	NotExclusive Exclusive = iota
	// PCPULevel shares no core: siblings are left empty.
	PCPULevel
	// NUMANodeLevel shares no NUMA node with another pinned pod.
	NUMANodeLevel
)

// NUMAPolicy bounds the number of NUMA nodes of an answer.
type NUMAPolicy uint8

const (
	// BestEffort takes as few as there can be now.
	BestEffort NUMAPolicy = iota
	// Restricted takes as few as the same request needs on the empty machine.
	Restricted
	// SingleNUMANode takes one.
	SingleNUMANode
)

// NUMAExclusive keeps pods that stay inside one NUMA node and pods that cross
// nodes off each other's nodes.
type NUMAExclusive uint8

const (
	// NUMAShared does not mind.
	NUMAShared NUMAExclusive = iota
	// NUMAExclusivePreferred minds, and gives it up rather than be refused.
	NUMAExclusivePreferred
	// NUMAExclusiveRequired minds.
	NUMAExclusiveRequired
)

// Domain is the smallest thing that must hold the whole answer.
type Domain uint8

const (
	// AnyDomain is the machine.
	AnyDomain Domain = iota
	// OneL3ElseNUMA is one L3 domain, or if none can, one NUMA node.
	OneL3ElseNUMA
)

// Strategy says which domains to use first, of those that are equally good for
// the pod itself.
type Strategy uint8

const (
	// MostAllocated fills what is fullest, so that whole domains stay free.
	MostAllocated Strategy = iota
	// LeastAllocated takes what is emptiest.
	LeastAllocated
	// DistributeEvenly divides what needs several NUMA nodes evenly among them,
	// of the emptiest ones. What one node can hold it treats as MostAllocated does.
	DistributeEvenly
)

// Spreads reports whether an answer in so many NUMA nodes is better if much stays
// free in its domains, and not little.
func (s Strategy) Spreads(nodes int) bool {
	return s == LeastAllocated || s == DistributeEvenly && nodes > 1
}

// Want is what one container asks for.
type Want struct {
	// Name breaks ties between containers of one size.
	Name string
	// CPUs is how many, 1 or more.
	CPUs int
}

// Amount is what a pod needs of its NUMA nodes together, such as memory.
type Amount struct {
	Want int64
	// Free is what each node can give, in the order of the topology's nodes.
	Free []int64
}

// heldBy reports whether the nodes have the amount.
func (a *Amount) heldBy(nodes []int) bool {
	sum := int64(0)
	for _, i := range nodes {
		if i < len(a.Free) {
			sum += a.Free[i]
		}
	}
	return sum >= a.Want
}

// Request is what one pod asks of one machine. The policies hold for the union
// of its containers, except that required FullPCPUs holds for each as well.
type Request struct {
	// Wants has one entry for each container, at least one.
	Wants             []Want
	Bind              Bind
	BindStrength      Strength
	Exclusive         Exclusive
	ExclusiveStrength Strength
	NUMA              NUMAPolicy
	NUMAExclusive     NUMAExclusive
	Domain            Domain
	Strategy          Strategy
	// EfficiencyCores allows the efficiency cores of a hybrid machine.
	EfficiencyCores bool
	// PreferNodes holds ids of NUMA nodes, such as those of devices. It is a
	// preference only, after the number of nodes. Empty: none.
	PreferNodes cpuset.Set
	// Span holds ids of NUMA nodes, two or more, that the answer takes CPUs of, of each
	// as many as these allow, whatever that costs in nodes; where it can have none of one
	// the rest decides alone. It outranks Restricted, but no preference that can be
	// dropped, nor one domain. Empty: none.
	Span cpuset.Set
	// Amounts are preferences too, which come first after the number of nodes. At
	// most 7 count.
	Amounts []Amount
}

// total returns the CPUs of all containers, and false for a request that asks
// for nothing, or for a container without CPUs.
func (r *Request) total() (int, bool) {
	n := 0
	for _, want := range r.Wants {
		if want.CPUs < 1 {
			return 0, false
		}
		n = min(n+want.CPUs, tooMany)
	}
	return n, n > 0
}

// tooMany is more CPUs than any machine has; sums stop there.
const tooMany = 1 << 30
