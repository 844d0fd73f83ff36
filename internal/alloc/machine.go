package alloc

import (
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/topology"
)

// none is the index of no node, no L3 domain, no core, no CPU.
const none = -1

// Machine is a topology compiled for allocation. It is immutable: nodes of one
// kind and all goroutines may share one.
type Machine struct {
	topo *topology.Topology
	// kinds says what may be given out: without efficiency cores, with them.
	kinds [2]kind
	// cores are sorted by cell, then by lowest CPU.
	cores    []core
	coreOf   [cpuset.Max]int16
	patterns []pattern
	// cells are sorted by node; those in no node come first.
	cells []cell
	// homeless is the number of cells in no node, nowhere their CPUs.
	homeless int
	nowhere  mask
	nodes    []node
	l3s      []domain
	// sockets has the packages and, last, what is in none.
	sockets []domain
	// nodesInSockets says that no node has cores of several sockets.
	nodesInSockets bool
	// distance has a row for each node, of two directions the greater one.
	distance [][]int
}

// kind is what the machine gives out to requests that want efficiency cores, or
// do not.
type kind struct {
	cpus mask
	// threads is the most of a core wholly in cpus; wide is the most online
	// threads of a core that has a CPU in it.
	threads, wide int
	// uniform says that all these cores have wide threads, at most widest.
	uniform bool
	// regular says that nodes, L3 domains and sockets are all there and nested
	// so that the nodes and L3 domains of an answer give its sockets.
	regular bool
}

// core is one physical core. It lies where its lowest thread does, as the
// topology says: tables that scatter one core are wrong about it.
type core struct {
	cpus []int16 // online threads, ascending
	cell int
}

// pattern is what cores have in common that are numbered alike: the distance of
// each thread from the lowest, which is in leads. Most machines have one pattern,
// which makes the cores that are wholly free a matter of a few words.
type pattern struct {
	offsets []int
	leads   mask
}

// cell holds the cores that share NUMA node, L3 domain and socket.
type cell struct {
	node, l3, socket int // indices, none if in none (socket: the last one)
	lo, hi           int // its cores
	cpus             sparse
}

type node struct {
	id     topology.NodeID
	lo, hi int // its cells
	socket int // none: several
	die    int // none: several, or the machine has none
	cpus   sparse
}

// domain is an L3 domain or a socket.
type domain struct {
	id           int
	socket, node int // of an L3 domain, none: several
	cpus         sparse
}

// Topology returns what the machine was compiled from.
func (m *Machine) Topology() *topology.Topology { return m.topo }

// Pinnable returns the CPUs that may be given out: online, not reserved, not
// isolated. Efficiency cores are among them.
func (m *Machine) Pinnable() cpuset.Set { return m.kinds[1].cpus.set() }

// nodesOf returns the indices of the nodes that the CPUs are in.
func (m *Machine) nodesOf(cpus *mask) (nodes nodeSet, count int) {
	for i := range m.nodes {
		if m.nodes[i].cpus.in(cpus) > 0 {
			nodes.add(i)
			count++
		}
	}
	return nodes, count
}

// withSiblings returns the CPUs and all their online siblings.
func (m *Machine) withSiblings(cpus *mask) mask {
	all := *cpus
	for cpu := cpus.next(0); cpu != none; cpu = cpus.next(cpu + 1) {
		if c := m.coreOf[cpu]; c != none {
			m.addCore(&all, int(c))
		}
	}
	return all
}

// addCore adds all threads of a core.
func (m *Machine) addCore(cpus *mask, c int) {
	for _, cpu := range m.cores[c].cpus {
		cpus.add(int(cpu))
	}
}
