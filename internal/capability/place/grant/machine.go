package grant

import (
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// MemoryNodes returns the NUMA nodes that have memory, or all nodes if none is known to have any.
func MemoryNodes(m *alloc.Machine) cpuset.Set {
	var all, some cpuset.Set
	for i := range m.Topology().Nodes {
		node := &m.Topology().Nodes[i]
		all = all.Add(int(node.ID))
		if node.MemoryBytes > 0 {
			some = some.Add(int(node.ID))
		}
	}
	if some.IsEmpty() {
		return all
	}
	return some
}

// HasCore reports whether a whole core is among the CPUs.
func HasCore(m *alloc.Machine, cpus cpuset.Set) bool {
	for i := range m.Topology().Cores {
		if core := m.Topology().Cores[i].CPUs; !core.IsEmpty() && core.IsSubsetOf(cpus) {
			return true
		}
	}
	return false
}

// Base returns the CPUs that run containers.
func Base(m *alloc.Machine) cpuset.Set {
	t := m.Topology()
	return t.Online.Difference(t.Reserved).Difference(t.Isolated)
}

// NodesOf returns the NUMA nodes with memory that the CPUs are in.
func NodesOf(m *alloc.Machine, cpus cpuset.Set) cpuset.Set {
	var nodes cpuset.Set
	for i := range m.Topology().Nodes {
		if node := &m.Topology().Nodes[i]; node.CPUs.Intersects(cpus) {
			nodes = nodes.Add(int(node.ID))
		}
	}
	return nodes.Intersect(MemoryNodes(m))
}
