package alloc

import "github.com/berth-project/berth/internal/value/cpuset"

// Holding is what one pod holds on a machine: the union of its containers.
type Holding struct {
	CPUs cpuset.Set
	// Exclusive is the exclusivity that it was granted.
	Exclusive Exclusive
	// SingleNUMA is true if the pod was granted NUMA exclusivity. If the pod is inside one node, no pod that crosses
	// nodes may use that node. If it crosses nodes, no pod inside one node may use them.
	SingleNUMA bool
}

// Taken is what the pods of one machine hold. The zero value is the empty machine. A copy is independent. A pod cannot
// be removed from a Taken: it is built from the pods that exist.
type Taken struct {
	// cpus holds the CPUs of all pods and the siblings that exclusivity leaves empty.
	cpus mask
	// withheld holds CPUs that are not given out although no pod has them.
	withheld mask
	// closed holds the nodes that a pod holds alone (NUMANodeLevel).
	closed nodeSet
	// inside has the nodes of pods in one node, across the nodes of pods that cross nodes.
	inside, across nodeSet
	// keepInside and keepAcross have the same nodes, but only of pods that were granted NUMA exclusivity.
	keepInside, keepAcross nodeSet
}

// Hold adds one pod to t. CPUs that the machine does not have are taken and are in no node.
func (m *Machine) Hold(t *Taken, h Holding) {
	cpus := mask(h.CPUs.Words())
	nodes := m.nodesOf(&cpus)
	kind, keep := &t.inside, &t.keepInside
	if nodes.size() > 1 {
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

// Clash reports whether h and a pod in t are in the same NUMA node although one of them excludes the other there:
// NUMANodeLevel excludes all pods, and NUMA exclusivity those of the other kind. It does not compare CPUs.
func (m *Machine) Clash(t *Taken, h Holding) bool {
	cpus := mask(h.CPUs.Words())
	nodes := m.nodesOf(&cpus)
	excluded, other := t.keepAcross, t.across
	if nodes.size() > 1 {
		excluded, other = t.keepInside, t.inside
	}
	if h.SingleNUMA {
		excluded |= other
	}
	if h.Exclusive == NUMANodeLevel {
		excluded |= t.inside | t.across
	}
	return nodes&(excluded|t.closed) != 0
}

// Withhold excludes CPUs from what Allocate gives out for a time. No pod has them, so they do not make a node or core
// occupied for a pod that must be alone.
func (t *Taken) Withhold(cpus cpuset.Set) {
	add := mask(cpus.Words())
	t.withheld.or(&add)
}

// CPUs returns the CPUs of all pods and the siblings that exclusivity leaves empty. It does not include withheld CPUs.
func (t *Taken) CPUs() cpuset.Set { return t.cpus.set() }
