package alloc

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// mostNodes is the greatest number of NUMA nodes of a machine, limited by nodeSet. Linux has been built for more, but
// no machine with at most cpuset.Max CPUs has more, and a search among them would not be feasible.
const mostNodes = 64

// farthest is the upper limit of a distance between nodes. The kernel's distances are below 256.
const farthest = 4095

// Compile prepares a topology. Reserved, isolated and offline CPUs are never given out, efficiency cores only on
// request. Compile returns ErrTopology if the topology contradicts itself or has more than 64 NUMA nodes.
func Compile(t *topology.Topology) (*Machine, error) {
	if t == nil {
		return nil, fmt.Errorf("%w: none given", ErrTopology)
	}
	m := &Machine{topo: t}
	for i := range m.coreOf {
		m.coreOf[i] = none
	}
	for _, n := range t.Nodes {
		m.nodes = append(m.nodes, node{id: n.ID})
	}
	for _, d := range t.L3 {
		m.l3s = append(m.l3s, l3Domain{id: d.ID})
	}
	for _, s := range t.Sockets {
		m.sockets = append(m.sockets, int(s.ID))
	}
	m.sockets = append(m.sockets, topology.None)
	if len(m.nodes) > mostNodes {
		return nil, fmt.Errorf("%w: %d NUMA nodes: at most %d", ErrTopology, len(m.nodes), mostNodes)
	}
	if len(m.l3s) > cpuset.Max || len(m.sockets) > cpuset.Max || len(t.Dies) > cpuset.Max {
		return nil, fmt.Errorf("%w: %d L3 domains, %d sockets, %d dies: at most %d", ErrTopology, len(t.L3), len(t.Sockets), len(t.Dies), cpuset.Max-1)
	}
	if err := m.place(t); err != nil {
		return nil, err
	}
	m.domains()
	if err := m.measure(t); err != nil {
		return nil, err
	}
	m.nest()
	m.findDies(t)
	for i := range m.kinds {
		m.kinds[i] = m.kind(t, i == 1)
	}
	return m, nil
}

// place sorts the cores into cells.
func (m *Machine) place(t *topology.Topology) error {
	where, order := make([]cell, len(t.Cores)), make([]int, len(t.Cores))
	for i := range t.Cores {
		at, err := m.cellOf(&t.Cores[i])
		if err != nil {
			return err
		}
		where[i], order[i] = at, i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(compareCells(&where[a], &where[b]), t.Cores[a].CPUs.Compare(t.Cores[b].CPUs))
	})
	for _, i := range order {
		if last := len(m.cells) - 1; last < 0 || compareCells(&m.cells[last], &where[i]) != 0 {
			where[i].lo = len(m.cores)
			m.cells = append(m.cells, where[i])
		}
		if err := m.placeCore(&t.Cores[i]); err != nil {
			return err
		}
	}
	return nil
}

func compareCells(a, b *cell) int {
	return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.l3, b.l3), cmp.Compare(a.socket, b.socket))
}

// cellOf returns the node, L3 domain and socket of a core.
func (m *Machine) cellOf(c *topology.Core) (cell, error) {
	at := cell{
		node:   slices.IndexFunc(m.nodes, func(n node) bool { return n.id == c.Node }),
		l3:     slices.IndexFunc(m.l3s, func(d l3Domain) bool { return d.id == c.L3 }),
		socket: slices.Index(m.sockets, int(c.Socket)),
	}
	if at.node == none && c.Node != topology.None || at.l3 == none && c.L3 != topology.None || at.socket == none {
		return at, fmt.Errorf("%w: core %d: NUMA node %d, L3 %d or socket %d does not exist", ErrTopology, c.ID, c.Node, c.L3, c.Socket)
	}
	return at, nil
}

// placeCore appends a core to the last cell.
func (m *Machine) placeCore(c *topology.Core) error {
	last := len(m.cells) - 1
	in := core{cell: last}
	for cpu := range c.CPUs.All() {
		if m.coreOf[cpu] != none {
			return fmt.Errorf("%w: CPU %d is in two cores", ErrTopology, cpu)
		}
		m.coreOf[cpu] = int16(len(m.cores))
		in.cpus = append(in.cpus, int16(cpu))
	}
	if len(in.cpus) == 0 {
		return fmt.Errorf("%w: core %d has no CPU", ErrTopology, c.ID)
	}
	m.cores = append(m.cores, in)
	m.cells[last].hi = len(m.cores)
	m.addPattern(in.cpus)
	return nil
}

// addPattern adds a core to the pattern of its CPU numbers.
func (m *Machine) addPattern(cpus []int16) {
	offsets := make([]int, len(cpus))
	for i, cpu := range cpus {
		offsets[i] = int(cpu - cpus[0])
	}
	i := slices.IndexFunc(m.patterns, func(p pattern) bool { return slices.Equal(p.offsets, offsets) })
	if i < 0 {
		i = len(m.patterns)
		m.patterns = append(m.patterns, pattern{offsets: offsets})
	}
	m.patterns[i].leads.add(int(cpus[0]))
}

// domains collects the CPUs of cells, nodes, L3 domains and sockets.
func (m *Machine) domains() {
	nodes, l3s, sockets := make([]mask, len(m.nodes)), make([]mask, len(m.l3s)), make([]mask, len(m.sockets))
	for i := range m.cells {
		at := &m.cells[i]
		var cpus mask
		for c := at.lo; c < at.hi; c++ {
			cpus.addAll(m.cores[c].cpus)
		}
		at.cpus = cpus.sparse()
		sockets[at.socket].or(&cpus)
		if at.l3 != none {
			l3s[at.l3].or(&cpus)
		}
		if at.node == none {
			m.nowhere.or(&cpus)
		} else {
			nodes[at.node].or(&cpus)
		}
	}
	m.nodeCPUs, m.l3CPUs, m.socketCPUs = sparseAll(nodes), sparseAll(l3s), sparseAll(sockets)
}

// measure copies the distances, using the greater of the two directions.
func (m *Machine) measure(t *topology.Topology) error {
	for i := range t.Nodes {
		if len(t.Nodes[i].Distances) != len(t.Nodes) {
			return fmt.Errorf("%w: NUMA node %d: %d distances for %d nodes", ErrTopology, t.Nodes[i].ID, len(t.Nodes[i].Distances), len(t.Nodes))
		}
	}
	for i := range t.Nodes {
		row := make([]int, len(t.Nodes))
		for j := range row {
			row[j] = min(max(t.Nodes[i].Distances[j], t.Nodes[j].Distances[i], 0), farthest)
		}
		m.distance = append(m.distance, row)
	}
	return nil
}

// unset marks the index of the socket or node of a domain before nest sees the domain's first cell.
const unset = -2

// nest finds the cells of each node, and the domains that are inside one socket or node.
func (m *Machine) nest() {
	for i := range m.nodes {
		m.nodes[i].socket = unset
	}
	for i := range m.l3s {
		m.l3s[i].socket, m.l3s[i].node = unset, unset
	}
	for i := range m.cells {
		at := &m.cells[i]
		if at.l3 != none {
			inside(&m.l3s[at.l3].socket, at.socket)
			inside(&m.l3s[at.l3].node, at.node)
		}
		if at.node == none {
			m.homeless = i + 1
			continue
		}
		n := &m.nodes[at.node]
		if n.hi == 0 {
			n.lo = i
		}
		n.hi = i + 1
		inside(&n.socket, at.socket)
	}
	m.nodesInSockets = true
	for i := range m.nodes {
		switch socket := m.nodes[i].socket; {
		case socket == none:
			m.nodesInSockets = false
		case socket >= 0 && socket < len(m.sockets)-1:
			m.nodes[i].inSocket = 1 << slices.IndexFunc(m.nodes, func(n node) bool { return n.socket == socket })
		}
	}
}

// findDies finds the die that each node is wholly inside.
func (m *Machine) findDies(t *topology.Topology) {
	all, dies := mask(t.Online.Words()), make([]int, len(m.nodes))
	for i := range m.nodes {
		n := &m.nodes[i]
		dies[i] = slices.IndexFunc(t.Dies, func(d topology.Die) bool {
			die := mask(d.CPUs.Words())
			return m.nodeCPUs[i].in(&die) == m.nodeCPUs[i].in(&all)
		})
		if dies[i] != none {
			n.inDie = 1 << slices.Index(dies, dies[i])
		}
	}
}

// inside updates where, the location of a domain, for a part of the domain that is located there: none if its parts
// differ.
func inside(where *int, there int) {
	if *where == unset || *where == there {
		*where = there
		return
	}
	*where = none
}

// kind returns what is given out, with or without efficiency cores.
func (m *Machine) kind(t *topology.Topology, efficiency bool) kind {
	k := kind{regular: true}
	for i := range t.Cores {
		if c := &t.Cores[i]; efficiency || c.Kind != topology.KindEfficiency {
			cpus := mask(c.CPUs.Intersect(t.Online).Difference(t.Reserved).Difference(t.Isolated).Words())
			k.cpus.or(&cpus)
		}
	}
	narrow := widest
	for i := range m.cores {
		c := &m.cores[i]
		in := k.cpus.count(c.cpus)
		if in > 0 {
			k.wide = max(k.wide, len(c.cpus))
			narrow = min(narrow, len(c.cpus))
			k.regular = k.regular && m.isRegular(&m.cells[c.cell])
		}
		if in == len(c.cpus) {
			k.threads = max(k.threads, in)
		}
	}
	k.uniform = k.wide == narrow
	return k
}

// isRegular reports whether a cell is in a node, and in an L3 domain and a socket if the machine has any. Its node or
// its L3 domain must also be wholly inside one socket.
func (m *Machine) isRegular(at *cell) bool {
	last := len(m.sockets) - 1
	if at.node == none || at.l3 == none && len(m.l3s) > 0 || at.socket == last && last > 0 {
		return false
	}
	return m.nodes[at.node].socket != none || at.l3 != none && m.l3s[at.l3].socket != none
}
