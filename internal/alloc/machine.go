package alloc

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/topology"
)

// none is the index of no node, L3 domain or core.
const none = -1

// Machine is a topology compiled for allocation. It is immutable: nodes of one
// kind and all goroutines may share one.
type Machine struct {
	topo *topology.Topology
	// pin holds the CPUs that may be given out, without the efficiency cores
	// and with them; threads is the most threads of a core wholly in it.
	pin     [2]mask
	threads [2]int
	// cores are sorted by cell, then by lowest CPU.
	cores  []core
	coreOf [cpuset.Max]int16
	cells  []cell
	nodes  []node
	l3s    []domain
	// sockets has the packages and, last, what is in none.
	sockets []domain
	// distance has a row for each node.
	distance [][]int
}

// core is one physical core. It lies where its lowest thread does, as the
// topology says: tables that scatter a core over nodes are wrong about it.
type core struct {
	cpus    []int16 // online threads, ascending
	threads mask
	cell    int
}

// cell holds the cores that share node, L3 and socket.
type cell struct {
	node, l3, socket int // indices, none if in none (socket: the last one)
	lo, hi           int // its cores
	cpus             mask
}

type node struct {
	id   topology.NodeID
	cpus mask // of its cores
}

type domain struct {
	id   int
	cpus mask
}

// Compile prepares a topology. Reserved, isolated and offline CPUs will never
// be given out, efficiency cores only on request. A topology that contradicts
// itself is ErrTopology.
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
		m.l3s = append(m.l3s, domain{id: int(d.ID)})
	}
	for _, s := range t.Sockets {
		m.sockets = append(m.sockets, domain{id: int(s.ID)})
	}
	m.sockets = append(m.sockets, domain{id: topology.None})
	if err := m.place(t); err != nil {
		return nil, err
	}
	m.measure(t)
	return m, m.distances(t)
}

// place builds cores and cells.
func (m *Machine) place(t *topology.Topology) error {
	var where []cell
	for i := range t.Cores {
		c, err := m.cellOf(&t.Cores[i])
		if err != nil {
			return err
		}
		where = append(where, c)
	}
	order := make([]int, len(t.Cores))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		low, _ := t.Cores[a].CPUs.Min()
		other, _ := t.Cores[b].CPUs.Min()
		return cmp.Or(compareCells(&where[a], &where[b]), cmp.Compare(low, other))
	})
	for _, i := range order {
		if last := len(m.cells) - 1; last < 0 || compareCells(&m.cells[last], &where[i]) != 0 {
			m.cells = append(m.cells, cell{node: where[i].node, l3: where[i].l3, socket: where[i].socket, lo: len(m.cores)})
		}
		if err := m.addCore(&t.Cores[i]); err != nil {
			return err
		}
	}
	return nil
}

func compareCells(a, b *cell) int {
	return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.l3, b.l3), cmp.Compare(a.socket, b.socket))
}

// cellOf finds where a core lies.
func (m *Machine) cellOf(c *topology.Core) (cell, error) {
	at := cell{
		node:   slices.IndexFunc(m.nodes, func(n node) bool { return n.id == c.Node }),
		l3:     slices.IndexFunc(m.l3s, func(d domain) bool { return d.id == int(c.L3) }),
		socket: slices.IndexFunc(m.sockets, func(d domain) bool { return d.id == int(c.Socket) }),
	}
	if at.node == none && c.Node != topology.None || at.l3 == none && c.L3 != topology.None || at.socket == none {
		return at, fmt.Errorf("%w: core %d: its NUMA node %d, L3 %d or socket %d is not there", ErrTopology, c.ID, c.Node, c.L3, c.Socket)
	}
	return at, nil
}

// addCore appends a core to the last cell.
func (m *Machine) addCore(c *topology.Core) error {
	last := len(m.cells) - 1
	in := core{cell: last, threads: c.CPUs.Words()}
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
	at := &m.cells[last]
	at.hi = len(m.cores) + 1
	for _, in2 := range []*mask{&at.cpus, m.nodeMask(at.node), m.l3Mask(at.l3), &m.sockets[at.socket].cpus} {
		if in2 != nil {
			in2.or(&in.threads)
		}
	}
	m.cores = append(m.cores, in)
	return nil
}

func (m *Machine) nodeMask(i int) *mask {
	if i == none {
		return nil
	}
	return &m.nodes[i].cpus
}

func (m *Machine) l3Mask(i int) *mask {
	if i == none {
		return nil
	}
	return &m.l3s[i].cpus
}

// measure finds what may be given out.
func (m *Machine) measure(t *topology.Topology) {
	for i := range t.Cores {
		free := mask(t.Cores[i].CPUs.Intersect(t.Online).Difference(t.Reserved).Difference(t.Isolated).Words())
		m.pin[1].or(&free)
		if t.Cores[i].Kind != topology.KindEfficiency {
			m.pin[0].or(&free)
		}
	}
	for i := range m.cores {
		for kind := range m.pin {
			if both := m.cores[i].threads; isSubset(&both, &m.pin[kind]) {
				m.threads[kind] = max(m.threads[kind], len(m.cores[i].cpus))
			}
		}
	}
}

func isSubset(a, b *mask) bool {
	for i := range a {
		if a[i]&^b[i] != 0 {
			return false
		}
	}
	return true
}

func (m *Machine) distances(t *topology.Topology) error {
	for i := range t.Nodes {
		if len(t.Nodes[i].Distances) != len(t.Nodes) {
			return fmt.Errorf("%w: NUMA node %d has %d distances for %d nodes", ErrTopology, t.Nodes[i].ID, len(t.Nodes[i].Distances), len(t.Nodes))
		}
	}
	for i := range t.Nodes {
		row := make([]int, len(t.Nodes))
		for j := range row {
			row[j] = max(t.Nodes[i].Distances[j], t.Nodes[j].Distances[i])
		}
		m.distance = append(m.distance, row)
	}
	return nil
}

// Topology returns what the machine was compiled from.
func (m *Machine) Topology() *topology.Topology { return m.topo }

// Pinnable returns the CPUs that may be given out: online, not reserved, not
// isolated. Efficiency cores are among them.
func (m *Machine) Pinnable() cpuset.Set { return m.pin[1].set() }
