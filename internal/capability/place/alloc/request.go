package alloc

import "github.com/berth-project/berth/internal/value/cpuset"

// Bind determines how the CPUs of an answer are arranged on cores.
type Bind uint8

const (
	// FullPCPUs asks for whole cores.
	FullPCPUs Bind = iota
	// SpreadByPCPUs asks for as many different cores as possible.
	SpreadByPCPUs
)

// Strength distinguishes a preference from a requirement.
type Strength uint8

const (
	// Preferred is dropped if it cannot be met.
	Preferred Strength = iota
	// Required refuses the pod if it cannot be met.
	Required
)

// Exclusive determines what an answer shares with no other pod.
type Exclusive uint8

const (
	// NotExclusive shares everything but the CPUs themselves.
	NotExclusive Exclusive = iota
	// PCPULevel shares no core: siblings are left empty.
	PCPULevel
	// NUMANodeLevel shares no NUMA node with another pinned pod.
	NUMANodeLevel
)

// NUMAPolicy limits the number of NUMA nodes of an answer.
type NUMAPolicy uint8

const (
	// BestEffort uses as few nodes as are possible now.
	BestEffort NUMAPolicy = iota
	// Restricted uses as few nodes as the same request needs on the empty machine.
	Restricted
	// SingleNUMANode uses one node.
	SingleNUMANode
)

// NUMAExclusive separates pods that stay inside one NUMA node from pods that cross nodes: neither uses the other's
// nodes.
type NUMAExclusive uint8

const (
	// NUMAShared asks for no separation.
	NUMAShared NUMAExclusive = iota
	// NUMAExclusivePreferred asks for separation, and drops it rather than be refused.
	NUMAExclusivePreferred
	// NUMAExclusiveRequired asks for separation, and is refused without it.
	NUMAExclusiveRequired
)

// Domain is the smallest domain that must hold the whole answer.
type Domain uint8

const (
	// AnyDomain is the machine.
	AnyDomain Domain = iota
	// OneL3ElseNUMA is one L3 domain or, if no L3 domain can hold the answer, one NUMA node.
	OneL3ElseNUMA
)

// Strategy determines which domains are used first, among domains that are equally good for the pod itself.
type Strategy uint8

const (
	// MostAllocated fills the fullest domains first, so that whole domains stay free.
	MostAllocated Strategy = iota
	// LeastAllocated uses the emptiest domains first.
	LeastAllocated
	// DistributeEvenly divides an answer that needs several NUMA nodes evenly among the emptiest ones. An answer that
	// fits in one node is treated as with MostAllocated.
	DistributeEvenly
)

// Spreads reports whether an answer in this many NUMA nodes is better if more CPUs stay free in its domains.
func (s Strategy) Spreads(nodes int) bool {
	return s == LeastAllocated || s == DistributeEvenly && nodes > 1
}

// Want is what one container asks for.
type Want struct {
	// Name breaks ties between containers of one size.
	Name string
	// CPUs is the number of CPUs, 1 or more.
	CPUs int
}

// Amount is what a pod needs from all its NUMA nodes together: memory, or devices of one kind.
type Amount struct {
	// Device distinguishes devices, which are ranked before memory.
	Device bool
	Want   int64
	// Free is what each node can provide, in the order of the topology's nodes.
	Free []int64
}

// heldBy reports whether the nodes together have the amount.
func (a *Amount) heldBy(nodes []int) bool {
	sum := int64(0)
	for _, i := range nodes {
		if i < len(a.Free) {
			sum += a.Free[i]
		}
	}
	return sum >= a.Want
}

// Request is what one pod asks of one machine. The policies apply to the union of its containers; required FullPCPUs
// also applies to each container.
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
	// PreferNodes holds ids of NUMA nodes, such as the nodes of devices. It is only a preference, ranked after the
	// number of nodes. Empty means no preference.
	PreferNodes cpuset.Set
	// Span holds ids of two or more NUMA nodes. The answer divides its CPUs among all of them as evenly as their free
	// CPUs allow, even if that needs more nodes. If a node can contribute no CPU, the other fields decide alone. Span
	// outranks Restricted, but no preference that can be dropped and not a single domain. Empty means none.
	Span cpuset.Set
	// Amounts are preferences too, ranked first after the number of nodes: all devices, then all memory. Only the first
	// 7 are used.
	Amounts []Amount
}

// total returns the CPUs of all containers, and false if the request has no containers or a container has no CPUs.
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

// tooMany is more CPUs than any machine has; sums are capped at it.
const tooMany = 1 << 30
