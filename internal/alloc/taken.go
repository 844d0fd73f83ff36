package alloc

import "github.com/berth-project/berth/internal/cpuset"

// Holding is what one pod holds on a machine: the union of its containers.
type Holding struct {
	CPUs cpuset.Set
	// Exclusive is the exclusivity that it was granted.
	Exclusive Exclusive
	// SingleNUMA says that it was granted NUMA exclusivity: where it is inside
	// one node, no pod that crosses nodes may come, and the other way round.
	SingleNUMA bool
}

// Taken is what the pods of one machine hold. The zero value is the empty
// machine. It is a value: a copy is independent.
type Taken struct {
	// cpus holds the CPUs of all pods and the siblings left empty.
	cpus mask
	// The rest are sets of node indices. closed: held alone (NUMANodeLevel).
	closed mask
	// inside and across: nodes of pods that stay in one node, that cross nodes.
	inside, across mask
	// keepInside and keepAcross: those of pods that were granted to be apart.
	keepInside, keepAcross mask
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
	kind.or(&nodes)
	if h.SingleNUMA {
		keep.or(&nodes)
	}
	switch h.Exclusive {
	case NotExclusive:
	case PCPULevel:
		m.withSiblings(&cpus)
	case NUMANodeLevel:
		t.closed.or(&nodes)
	}
	t.cpus.or(&cpus)
}

// nodesOf returns the indices of the nodes that the CPUs are in.
func (m *Machine) nodesOf(cpus *mask) (nodes mask, count int) {
	for i := range m.nodes {
		if m.nodes[i].cpus.intersects(cpus) {
			nodes.add(i)
			count++
		}
	}
	return nodes, count
}

// withSiblings adds the online siblings of the CPUs.
func (m *Machine) withSiblings(cpus *mask) {
	for i := range m.cores {
		if m.cores[i].threads.intersects(cpus) {
			cpus.or(&m.cores[i].threads)
		}
	}
}

// CPUs returns what is not free: the CPUs of all pods and the siblings that
// exclusivity leaves empty.
func (t *Taken) CPUs() cpuset.Set { return t.cpus.set() }
