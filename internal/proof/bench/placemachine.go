package bench

import (
	"fmt"

	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// PlaceMachine is a machine that pods are placed on, on paper.
type PlaceMachine struct {
	Name     string
	Topology *topology.Topology
}

// shape is a symmetric machine: sockets, nodes per socket, L3 domains per node, cores per domain, threads per core.
// CPUs are numbered as on x86: all first threads by core, then all second threads.
type shape struct{ sockets, nodes, l3s, cores, threads int }

// GeneratedMachines returns the two machines of every run: 256 CPUs like a two-socket server with small L3 domains, and
// 512 CPUs with four NUMA nodes per socket.
func GeneratedMachines() []PlaceMachine {
	var list []PlaceMachine
	for _, s := range []shape{{2, 1, 8, 8, 2}, {2, 4, 4, 8, 2}} {
		list = append(list, PlaceMachine{Name: s.name(), Topology: s.topology()})
	}
	return list
}

func (s shape) name() string {
	numa := s.sockets * s.nodes
	return fmt.Sprintf("%d CPUs (%d NUMA × %d L3 × %d cores × %d)", numa*s.l3s*s.cores*s.threads, numa, s.l3s, s.cores, s.threads)
}

func (s shape) topology() *topology.Topology {
	t := &topology.Topology{}
	total := s.sockets * s.nodes * s.l3s * s.cores
	for core := range total {
		var cpus cpuset.Set
		for thread := range s.threads {
			cpus = cpus.Add(thread*total + core)
		}
		l3 := core / s.cores
		node := l3 / s.l3s
		t.Online = t.Online.Union(cpus)
		t.Cores = append(t.Cores, topology.Core{
			ID: topology.CoreID(core), CPUs: cpus,
			Socket: topology.SocketID(node / s.nodes), Node: topology.NodeID(node), L3: topology.L3ID(l3),
		})
	}
	for l3 := range s.sockets * s.nodes * s.l3s {
		t.L3 = append(t.L3, topology.L3{ID: topology.L3ID(l3), CPUs: cpusOf(t, func(c topology.Core) bool { return int(c.L3) == l3 })})
	}
	for node := range s.sockets * s.nodes {
		t.Nodes = append(t.Nodes, topology.Node{
			ID: topology.NodeID(node), CPUs: cpusOf(t, func(c topology.Core) bool { return int(c.Node) == node }),
			MemoryBytes: 64 << 30, Distances: s.distances(node),
		})
	}
	for socket := range s.sockets {
		t.Sockets = append(t.Sockets, topology.Socket{
			ID: topology.SocketID(socket), CPUs: cpusOf(t, func(c topology.Core) bool { return int(c.Socket) == socket }),
		})
	}
	return t
}

// distances returns 10 within the node, 12 within the socket, 32 beyond it.
func (s shape) distances(node int) []int {
	row := make([]int, s.sockets*s.nodes)
	for other := range row {
		switch {
		case other == node:
			row[other] = 10
		case other/s.nodes == node/s.nodes:
			row[other] = 12
		default:
			row[other] = 32
		}
	}
	return row
}

func cpusOf(t *topology.Topology, is func(topology.Core) bool) cpuset.Set {
	var cpus cpuset.Set
	for _, c := range t.Cores {
		if is(c) {
			cpus = cpus.Union(c.CPUs)
		}
	}
	return cpus
}
