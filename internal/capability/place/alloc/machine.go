package alloc

import (
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// none is the index that means no node, no L3 domain, no core or no CPU.
const none = -1

// Machine is a topology compiled for allocation. It is immutable: nodes of the same kind and all goroutines may share
// it.
type Machine struct {
	topo *topology.Topology
	// kinds holds what may be given out: index 0 without efficiency cores, index 1 with them.
	kinds [2]kind
	// cores are sorted by cell, then by lowest CPU.
	cores    []core
	coreOf   [cpuset.Max]int16
	patterns []pattern
	// cells are sorted by node; the cells in no node come first.
	cells []cell
	// homeless is the number of cells in no node; nowhere holds their CPUs.
	homeless int
	nowhere  mask
	nodes    []node
	l3s      []l3Domain
	// sockets holds the ids of the packages and, as the last element, none for the CPUs in no package.
	sockets []int
	// The CPUs of each NUMA node, L3 domain and socket.
	nodeCPUs, l3CPUs, socketCPUs []sparse
	// nodesInSockets is true if no node has cores of several sockets.
	nodesInSockets bool
	// distance has a row for each node. Each value is the greater of the two directions.
	distance [][]int
}

// kind is what the machine gives out to requests with or without efficiency cores.
type kind struct {
	cpus mask
	// threads is the greatest number of threads of a core that is wholly in cpus. wide is the greatest number of
	// online threads of a core that has a CPU in cpus.
	threads, wide int
	// uniform is true if all these cores have wide threads, at most widest.
	uniform bool
	// regular is true if nodes, L3 domains and sockets all exist and are nested so that the nodes and L3 domains of an
	// answer determine its sockets.
	regular bool
}

// core is one physical core. The topology places it where its lowest thread is, so tables that scatter one core are
// wrong about it.
type core struct {
	cpus []int16 // online threads, ascending
	cell int
}

// pattern describes cores whose threads are numbered alike: the distance of each thread from the lowest thread, which
// is in leads. Most machines have one pattern, so finding the wholly free cores takes a few word operations.
type pattern struct {
	offsets []int
	leads   mask
}

// cell holds the cores that have the same NUMA node, L3 domain and socket.
type cell struct {
	node, l3, socket int // indices; none if there is none (socket: the last index)
	lo, hi           int // range of its cores
	cpus             sparse
}

type node struct {
	id     topology.NodeID
	lo, hi int // range of its cells
	socket int // none: several
	// inSocket and inDie have the first node that is in the same socket or die. They are empty if the node is in
	// several, or in none.
	inSocket, inDie nodeSet
}

type l3Domain struct {
	id           topology.L3ID
	socket, node int // none: several
}

// Topology returns the topology that the machine was compiled from.
func (m *Machine) Topology() *topology.Topology { return m.topo }

// Pinnable returns the CPUs that may be given out: online, not reserved, not isolated. It includes efficiency cores.
func (m *Machine) Pinnable() cpuset.Set { return m.kinds[1].cpus.set() }

// nodesOf returns the indices of the nodes that the CPUs are in.
func (m *Machine) nodesOf(cpus *mask) (nodes nodeSet) {
	for i := range m.nodeCPUs {
		if m.nodeCPUs[i].meets(cpus) {
			nodes.add(i)
		}
	}
	return nodes
}

// cpusOf returns the CPUs of nodes.
func (m *Machine) cpusOf(nodes nodeSet) (cpus mask) {
	for i := range m.nodeCPUs {
		if nodes.has(i) {
			m.nodeCPUs[i].addTo(&cpus)
		}
	}
	return cpus
}

// withSiblings returns the CPUs and all their online siblings.
func (m *Machine) withSiblings(cpus *mask) mask {
	all := *cpus
	for cpu := cpus.next(0); cpu != none; cpu = cpus.next(cpu + 1) {
		if c := m.coreOf[cpu]; c != none {
			all.addAll(m.cores[c].cpus)
		}
	}
	return all
}

// threads returns the online threads of a CPU's core.
func (m *Machine) threads(cpu int) []int16 { return m.cores[m.coreOf[cpu]].cpus }
