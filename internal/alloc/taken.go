package alloc

import "github.com/berth-project/berth/internal/cpuset"

// Holding is what one pod holds on a machine: the union of its containers.
type Holding struct {
	CPUs cpuset.Set
	// Exclusive is the exclusivity that it was granted.
	Exclusive Exclusive
	// SingleNUMA says that it was granted NUMA exclusivity: while it is inside
	// one node, no pod that crosses nodes may use that node; while it crosses
	// nodes, no pod that is inside one may use them.
	SingleNUMA bool
}

// Taken is what the pods of one machine hold. The zero value is the empty
// machine. It is a value: a copy is independent. Nothing can be taken out of
// it again: occupancy is a function of the pods that are there.
type Taken struct {
	// cpus holds the CPUs of all pods and the siblings left empty.
	cpus mask
	// withheld holds CPUs that are not given out although no pod has them.
	withheld mask
	// closed holds the nodes that a pod holds alone (NUMANodeLevel).
	closed nodeSet
	// inside and across: nodes of pods that stay in one node, that cross nodes.
	inside, across nodeSet
	// keepInside and keepAcross: those of pods that are to be kept apart.
	keepInside, keepAcross nodeSet
}

// Hold adds one pod to t. CPUs that the machine does not have count as taken
// and are in no node.
func (m *Machine) Hold(t *Taken, h Holding) {
	cpus := mask(h.CPUs.Words())
	nodes, count := m.nodesOf(&cpus)
	kind, keep := &t.inside, &t.keepInside
	if count > 1 {
		kind, keep = &t.across, &t.keepAcross
	}
	*kind |= nodes
	if h.SingleNUMA {
		*keep |= nodes
	}
	switch h.Exclusive {
	case NotExclusive:
	case PCPULevel:
		cpus = m.withSiblings(&cpus)
	case NUMANodeLevel:
		t.closed |= nodes
	}
	t.cpus.or(&cpus)
}

// Withhold takes CPUs out of what Allocate gives out, for a while: no pod has
// them, so they count as no neighbour where a pod wants to be alone.
func (t *Taken) Withhold(cpus cpuset.Set) {
	add := mask(cpus.Words())
	t.withheld.or(&add)
}

// CPUs returns what pods hold, not what is withheld: the CPUs of all pods and
// the siblings that exclusivity leaves empty.
func (t *Taken) CPUs() cpuset.Set { return t.cpus.set() }
