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
	// place maps a CPU id to the indices of the CPU's units, or none.
	place [cpuset.Max][kinds]int
	// units are the units of each kind, by ascending id.
	units [kinds][]unit
	// perL3 and perCore are how many CPUs a whole unit has on average.
	perL3, perCore int
	// above is the kind in whose order the kubelet takes the units of a kind. The first kind is above itself.
	above [kinds]kind
	// within are, for each unit of the first kind, its units of the second kind. The first kind is socket or node.
	within [l3][kinds][][]int
	// l3Of is the L3 domain of each core.
	l3Of []int
}

// kind is a kind of unit.
type kind int

const (
	socket kind = iota
	node
	l3
	core
	kinds
)

const none = -1

// unit is a socket, a NUMA node, an L3 domain or a core.
type unit struct {
	id   int
	cpus cpuset.Set
	size int
	// whole is how many free CPUs the kubelet demands of a wholly free unit.
	whole int
}

// Compile prepares a topology. The CPUs to pick from are the online CPUs that are neither reserved nor isolated. CPUs
// in no socket or no NUMA node form a unit of their own, as in the peers. A machine without CPUs, or with a CPU in no
// core, is ErrTopology.
func Compile(t *topology.Topology) (*Machine, error) {
	kept := t.Reserved.Union(t.Isolated)
	m := &Machine{given: t.Online.Difference(kept)}
	for _, s := range t.Sockets {
		m.add(socket, int(s.ID), s.CPUs)
	}
	for _, n := range t.Nodes {
		m.add(node, int(n.ID), n.CPUs)
	}
	for _, l := range t.L3 {
		m.add(l3, int(l.ID), l.CPUs)
	}
	for _, c := range t.Cores {
		m.add(core, int(c.ID), c.CPUs)
		if c.CPUs.Intersects(kept) {
			m.broken = m.broken.Union(c.CPUs)
		}
	}
	for _, k := range []kind{socket, node} {
		m.add(k, none, t.Online.Difference(all(m.units[k])))
	}
	for _, units := range m.units {
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
func (m *Machine) add(k kind, id int, cpus cpuset.Set) {
	if !cpus.IsEmpty() {
		m.units[k] = append(m.units[k], unit{id: id, cpus: cpus, size: cpus.Size(), whole: cpus.Size()})
	}
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
		for k, units := range m.units {
			m.place[cpu][k] = slices.IndexFunc(units, func(u unit) bool { return u.cpus.Contains(cpu) })
		}
		if m.place[cpu][core] == none {
			return fmt.Errorf("compile: CPU %d: %w: in no core", cpu, ErrTopology)
		}
	}
	if len(m.units[core]) == 0 {
		return fmt.Errorf("compile: %w: no CPU", ErrTopology)
	}
	for _, c := range m.units[core] {
		first, _ := c.cpus.Min()
		m.l3Of = append(m.l3Of, m.place[first][l3])
	}
	return nil
}

// nest computes which units each unit contains, and the averages, rounded down. The kubelet compares a socket and a
// core with the average.
func (m *Machine) nest(total int) {
	for _, k := range []kind{socket, core} {
		for i := range m.units[k] {
			m.units[k][i].whole = total / len(m.units[k])
		}
	}
	m.perCore = m.units[core][0].whole
	if len(m.units[l3]) > 0 {
		m.perL3 = total / len(m.units[l3])
	}
	m.above = [kinds]kind{socket: socket, node: socket, l3: node, core: node}
	if len(m.units[socket]) >= len(m.units[node]) { // a NUMA node holds a socket or more
		m.above = [kinds]kind{socket: node, node: node, l3: node, core: socket}
	}
	for outer := range m.within {
		for inner := range m.units {
			m.within[outer][inner] = within(m.units[outer], m.units[inner])
		}
	}
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
	machine     *Machine
	free, taken cpuset.Set
	need        int
	in          [kinds][]int // free CPUs of each unit
}

// count starts a tally to take n of the free CPUs; it ignores CPUs that are not in m.given.
func (m *Machine) count(free cpuset.Set, n int) *tally {
	t := &tally{machine: m, free: free.Intersect(m.given), need: n}
	for k, units := range m.units {
		t.in[k] = make([]int, len(units))
	}
	for cpu := range t.free.All() {
		t.change(cpu, 1)
	}
	return t
}

func (t *tally) change(cpu, by int) {
	for k, i := range t.machine.place[cpu] {
		if i != none {
			t.in[k][i] += by
		}
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
