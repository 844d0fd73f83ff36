package rival

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// ErrTopology reports that a machine lacks what the pickers need.
var ErrTopology = errors.New("topology unusable")

// Machine is a topology as the pickers see it. It is immutable and may be shared between goroutines.
type Machine struct {
	// given are the CPUs to pick from; broken are the CPUs of cores that have other CPUs too.
	given, broken cpuset.Set
	// place maps a CPU id to the indices of the CPU's units.
	place [cpuset.Max]place
	// The units, by ascending id.
	sockets, nodes, l3s, cores []unit
	// CPUs of a whole unit as the pickers expect them: an average.
	perSocket, perL3, perCore int
	// nodesFirst is true when a NUMA node holds a socket or more.
	nodesFirst bool
	// The units in each socket and node, and the L3 domain of each core.
	nodesIn, coresInSocket        [][]int
	socketsIn, l3sIn, coresInNode [][]int
	l3Of                          []int
}

// place is where a CPU is: an index for each kind of unit, or none.
type place struct{ socket, node, l3, core int }

const none = -1

// unit is a socket, a NUMA node, an L3 domain or a core.
type unit struct {
	id   int
	cpus cpuset.Set
	size int
}

// Compile prepares a topology. The CPUs to pick from are the online CPUs that are neither reserved nor isolated. CPUs
// in no socket or no NUMA node form a unit of their own, as in the peers. A machine without CPUs, or with a CPU in no
// core, is ErrTopology.
func Compile(t *topology.Topology) (*Machine, error) {
	kept := t.Reserved.Union(t.Isolated)
	m := &Machine{given: t.Online.Difference(kept)}
	for _, s := range t.Sockets {
		m.sockets = add(m.sockets, int(s.ID), s.CPUs)
	}
	for _, n := range t.Nodes {
		m.nodes = add(m.nodes, int(n.ID), n.CPUs)
	}
	for _, l := range t.L3 {
		m.l3s = add(m.l3s, int(l.ID), l.CPUs)
	}
	for _, c := range t.Cores {
		m.cores = add(m.cores, int(c.ID), c.CPUs)
		if c.CPUs.Intersects(kept) {
			m.broken = m.broken.Union(c.CPUs)
		}
	}
	m.sockets = add(m.sockets, none, t.Online.Difference(all(m.sockets)))
	m.nodes = add(m.nodes, none, t.Online.Difference(all(m.nodes)))
	for _, units := range [][]unit{m.sockets, m.nodes, m.l3s, m.cores} {
		slices.SortFunc(units, func(a, b unit) int { return cmp.Compare(a.id, b.id) })
	}
	if err := m.locate(t.Online); err != nil {
		return nil, err
	}
	m.nest(t.Online.Size())
	return m, nil
}

// CPUs returns the CPUs to pick from on an empty machine.
func (m *Machine) CPUs() cpuset.Set { return m.given }

// add appends a unit, unless it has no CPU (a NUMA node of memory only).
func add(units []unit, id int, cpus cpuset.Set) []unit {
	if cpus.IsEmpty() {
		return units
	}
	return append(units, unit{id: id, cpus: cpus, size: cpus.Size()})
}

// all returns the CPUs of all units.
func all(units []unit) cpuset.Set {
	var cpus cpuset.Set
	for _, u := range units {
		cpus = cpus.Union(u.cpus)
	}
	return cpus
}

func (m *Machine) locate(online cpuset.Set) error {
	for cpu := range online.All() {
		p := place{index(m.sockets, cpu), index(m.nodes, cpu), index(m.l3s, cpu), index(m.cores, cpu)}
		if p.core == none {
			return fmt.Errorf("compile: CPU %d: %w: in no core", cpu, ErrTopology)
		}
		m.place[cpu] = p
	}
	if len(m.cores) == 0 {
		return fmt.Errorf("compile: %w: no CPU", ErrTopology)
	}
	for _, c := range m.cores {
		first, _ := c.cpus.Min()
		m.l3Of = append(m.l3Of, m.place[first].l3)
	}
	return nil
}

func index(units []unit, cpu int) int {
	return slices.IndexFunc(units, func(u unit) bool { return u.cpus.Contains(cpu) })
}

// nest computes which units each unit contains, and the averages, rounded down.
func (m *Machine) nest(total int) {
	m.perSocket, m.perCore = total/len(m.sockets), total/len(m.cores)
	if len(m.l3s) > 0 {
		m.perL3 = total / len(m.l3s)
	}
	m.nodesFirst = len(m.sockets) >= len(m.nodes)
	m.nodesIn = within(m.sockets, m.nodes)
	m.socketsIn = within(m.nodes, m.sockets)
	m.l3sIn = within(m.nodes, m.l3s)
	m.coresInNode = within(m.nodes, m.cores)
	m.coresInSocket = within(m.sockets, m.cores)
}

// within returns, for each outer unit, the inner units that share a CPU with it.
func within(outer, inner []unit) [][]int {
	lists := make([][]int, len(outer))
	for o := range outer {
		for i := range inner {
			if outer[o].cpus.Intersects(inner[i].cpus) {
				lists[o] = append(lists[o], i)
			}
		}
	}
	return lists
}

// tally counts the free CPUs of every unit while a picker takes CPUs.
type tally struct {
	machine                        *Machine
	free, taken                    cpuset.Set
	need                           int
	inSocket, inNode, inL3, inCore []int
}

// count starts a tally to take n of the free CPUs; it ignores CPUs that are not in m.given.
func (m *Machine) count(free cpuset.Set, n int) *tally {
	t := &tally{
		machine: m, free: free.Intersect(m.given), need: n,
		inSocket: make([]int, len(m.sockets)), inNode: make([]int, len(m.nodes)),
		inL3: make([]int, len(m.l3s)), inCore: make([]int, len(m.cores)),
	}
	for cpu := range t.free.All() {
		t.change(cpu, 1)
	}
	return t
}

func (t *tally) change(cpu, by int) {
	p := t.machine.place[cpu]
	t.inSocket[p.socket] += by
	t.inNode[p.node] += by
	t.inCore[p.core] += by
	if p.l3 != none {
		t.inL3[p.l3] += by
	}
}

// take moves one CPU from free to taken.
func (t *tally) take(cpu int) {
	t.free, t.taken = t.free.Remove(cpu), t.taken.Add(cpu)
	t.need--
	t.change(cpu, -1)
}

// takeAll takes the free CPUs among the given ones.
func (t *tally) takeAll(cpus cpuset.Set) {
	for cpu := range cpus.Intersect(t.free).All() {
		t.take(cpu)
	}
}

// fullestFirst returns the units with a free CPU, fewest free CPUs first; ties go to the lower id.
func fullestFirst(units, free []int) []int {
	sorted := make([]int, 0, len(units))
	for _, u := range units {
		if free[u] > 0 {
			sorted = append(sorted, u)
		}
	}
	slices.SortFunc(sorted, func(a, b int) int {
		return cmp.Or(cmp.Compare(free[a], free[b]), cmp.Compare(a, b))
	})
	return sorted
}

// upTo returns 0 to n-1.
func upTo(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}
