package alloc_test

import "github.com/berth-project/berth/internal/linux/topology"

// shape is a symmetric machine: each count is per element of the previous one. The threads of a core have distant
// numbers, as on x86.
type shape struct{ sockets, nodes, l3s, cores, threads int }

// large has 512 CPUs.
var large = shape{sockets: 2, nodes: 4, l3s: 4, cores: 8, threads: 2}

func (s shape) cpus() int { return s.sockets * s.nodes * s.l3s * s.cores * s.threads }

func (s shape) topology() *topology.Topology {
	top := &topology.Topology{}
	total := s.sockets * s.nodes * s.l3s * s.cores
	for i := range total {
		l3 := i / s.cores
		node := l3 / s.l3s
		c := topology.Core{ID: topology.CoreID(i), L3: topology.L3ID(l3), Node: topology.NodeID(node), Socket: topology.SocketID(node / s.nodes)}
		for thread := range s.threads {
			c.CPUs = c.CPUs.Add(thread*total + i)
		}
		top.Online = top.Online.Union(c.CPUs)
		top.Cores = append(top.Cores, c)
	}
	for i := range s.sockets * s.nodes * s.l3s {
		top.L3 = append(top.L3, topology.L3{ID: topology.L3ID(i)})
	}
	for i := range s.sockets {
		top.Sockets = append(top.Sockets, topology.Socket{ID: topology.SocketID(i)})
	}
	for i := range s.sockets * s.nodes {
		n := topology.Node{ID: topology.NodeID(i)}
		for j := range s.sockets * s.nodes {
			switch {
			case i == j:
				n.Distances = append(n.Distances, 10)
			case i/s.nodes == j/s.nodes:
				n.Distances = append(n.Distances, 12)
			default:
				n.Distances = append(n.Distances, 32)
			}
		}
		top.Nodes = append(top.Nodes, n)
	}
	return top
}
