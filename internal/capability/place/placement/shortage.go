package placement

import (
	"fmt"

	"github.com/berth-project/berth/internal/capability/place/alloc"
)

// Constraint is what the free CPUs of a node do not satisfy although there are enough.
type Constraint string

// The constraints, as metrics name them.
const (
	// ShortOfCores is too few whole cores, or cores with a free CPU.
	ShortOfCores Constraint = "cores"
	// ShortOfL3 is too few CPUs in one L3 domain or NUMA node.
	ShortOfL3 Constraint = "l3"
	// ShortOfNUMA is too few CPUs in one NUMA node, or in as few as the pod may have.
	ShortOfNUMA Constraint = "numa"
	// ShortOfExclusive is too few CPUs away from other pods.
	ShortOfExclusive Constraint = "exclusive"
	// ShortOfPool is no whole core left for the shared pool.
	ShortOfPool Constraint = "pool"
)

// Constraints returns all constraints.
func Constraints() []Constraint {
	return []Constraint{ShortOfCores, ShortOfL3, ShortOfNUMA, ShortOfExclusive, ShortOfPool}
}

// Shortage is why a node with enough free CPUs cannot accept a pod: they are in the wrong places. The pod waits because
// of fragmentation.
type Shortage struct {
	Constraint Constraint
	// Free is how many CPUs the node could give out if they lay well: one whole core stays with the shared pool.
	// Missing is how many more it would need where the pod needs them.
	Free, Missing int
	refusal       Refusal
}

// String returns the shortage with the figures of the node.
func (s Shortage) String() string {
	return fmt.Sprintf("%d free CPUs, but %s (%d missing)", s.Free, s.refusal.Detail(), s.Missing)
}

// Shortage returns what the node lacks if it refuses the pod because of fragmentation, or false for another reason. no
// is the refusal of Decide with the same arguments, on a node that would accept the pod if it were empty.
func (n *Node) Shortage(o *Occupancy, a *Ask, no Refusal) (Shortage, bool) {
	if no.Code != Allocation && no.Code != SharedPool {
		return Shortage{}, false
	}
	free := n.most(o)
	s := Shortage{Free: free, Missing: no.Alloc.Want - no.Alloc.Have, refusal: no}
	if no.Code == SharedPool {
		s.Constraint, s.Missing = ShortOfPool, threads(n.Machine)
		return s, int(no.Have)-s.Missing >= int(no.Want)
	}
	switch no.Alloc.Code {
	case alloc.TooFewExclusive, alloc.TooFewExclusiveNodes, alloc.NodesHeldAlone, alloc.KeptApart:
		s.Constraint = ShortOfExclusive
	case alloc.TooFewWholeCores:
		s.Missing *= threads(n.Machine)
		s.Constraint = constraintOf(no.Alloc.Scope)
	case alloc.TooFewCPUs, alloc.TooFewCores:
		s.Constraint = constraintOf(no.Alloc.Scope)
	case alloc.Placed, alloc.BadRequest, alloc.NotWholeCores:
		return Shortage{}, false
	}
	return s, free >= a.CPUs() && s.Missing > 0
}

// constraintOf returns the constraint for a shortage of cores or CPUs.
func constraintOf(scope alloc.Scope) Constraint {
	switch scope {
	case alloc.InOneDomain:
		return ShortOfL3
	case alloc.InOneNode, alloc.InFewNodes:
		return ShortOfNUMA
	case alloc.Anywhere:
	}
	return ShortOfCores
}

// threads returns how many CPUs the largest core has.
func threads(m *alloc.Machine) int {
	most := 0
	for _, core := range m.Topology().Cores {
		most = max(most, core.CPUs.Size())
	}
	return most
}
