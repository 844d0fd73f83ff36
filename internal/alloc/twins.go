package alloc

// findTwins notes for each node of the order an earlier one that can stand in
// for it: it makes the vector no worse and the CPU list lower. A set with the
// later of the two and without the earlier one need not be looked at, which is
// what keeps machines of many equal nodes in hand.
func (s *Scratch) findTwins() {
	ns := &s.nodes
	ns.twin = grow(ns.twin, len(ns.order))
	for k := range ns.order {
		ns.twin[k] = none
		for j := k - 1; j >= 0; j-- {
			if ns.tallies[j] == ns.tallies[k] && s.alike(ns.order[j], ns.order[k]) {
				if s.lower(ns.order[j], ns.order[k]) {
					ns.twin[k] = j
				}
				break
			}
		}
	}
}

// alikeAmounts reports whether two nodes have as much of all that is counted by node.
func (p *problem) alikeAmounts(a, b int) bool {
	for i := range p.amounts {
		if free := p.amounts[i].Free; max(a, b) < len(free) && free[a] != free[b] {
			return false
		}
	}
	return true
}

// alikeDistances reports whether two nodes are as far from each other one.
func (m *Machine) alikeDistances(a, b int) bool {
	for i := range m.nodes {
		if i != a && i != b && m.distance[a][i] != m.distance[b][i] {
			return false
		}
	}
	return true
}

// alike reports whether two nodes are interchangeable but for their CPUs.
func (s *Scratch) alike(a, b int) bool {
	m := s.m
	x, y := &m.nodes[a], &m.nodes[b]
	if x.socket == none || x.socket != y.socket || x.die != y.die || s.freeNodes[a] != s.freeNodes[b] || x.hi-x.lo != y.hi-y.lo ||
		s.p.prefer.has(a) != s.p.prefer.has(b) {
		return false
	}
	if !s.p.alikeAmounts(a, b) || !m.alikeDistances(a, b) {
		return false
	}
	for i := range x.hi - x.lo {
		if s.eligible.cells[x.lo+i] != s.eligible.cells[y.lo+i] || !s.alikeL3(&m.cells[x.lo+i], &m.cells[y.lo+i]) {
			return false
		}
	}
	return true
}

// alikeL3 reports whether the L3 domains of two cells are inside their nodes and
// have as many free CPUs.
func (s *Scratch) alikeL3(a, b *cell) bool {
	if a.l3 == none || b.l3 == none {
		return a.l3 == b.l3
	}
	x, y := &s.m.l3s[a.l3], &s.m.l3s[b.l3]
	return x.node == a.node && y.node == b.node && s.freeL3s[a.l3] == s.freeL3s[b.l3]
}

// lower reports whether the cores of the first of two nodes that are alike can
// be matched with those of the second such that each CPU is lower.
func (s *Scratch) lower(a, b int) bool {
	x, y := &s.m.nodes[a], &s.m.nodes[b]
	for i := range x.hi - x.lo {
		if !s.lowerCell(x.lo+i, y.lo+i, &s.eligible.lead) || !s.lowerCell(x.lo+i, y.lo+i, &s.eligible.part) {
			return false
		}
	}
	return true
}

// lowerCell does it for those cores of two cells that have CPUs in the mask.
func (s *Scratch) lowerCell(a, b int, of *mask) bool {
	m := s.m
	i, j := m.cells[a].lo, m.cells[b].lo
	for {
		i, j = m.nextCore(i, m.cells[a].hi, of), m.nextCore(j, m.cells[b].hi, of)
		if i == m.cells[a].hi || j == m.cells[b].hi {
			return i == m.cells[a].hi && j == m.cells[b].hi
		}
		if !s.lowerCore(i, j) {
			return false
		}
		i, j = i+1, j+1
	}
}

// nextCore returns the first core from c on with a CPU in the mask, hi if there
// is none.
func (m *Machine) nextCore(c, hi int, of *mask) int {
	for ; c < hi; c++ {
		for _, cpu := range m.cores[c].cpus {
			if of.has(int(cpu)) {
				return c
			}
		}
	}
	return hi
}

// lowerCore reports whether two cores have as many threads and eligible CPUs,
// and those of the first are lower one by one.
func (s *Scratch) lowerCore(a, b int) bool {
	x, y, cpus := s.m.cores[a].cpus, s.m.cores[b].cpus, &s.eligible.cpus
	if len(x) != len(y) {
		return false
	}
	i, j := 0, 0
	for {
		for i < len(x) && !cpus.has(int(x[i])) {
			i++
		}
		for j < len(y) && !cpus.has(int(y[j])) {
			j++
		}
		if i == len(x) || j == len(y) {
			return i == len(x) && j == len(y)
		}
		if x[i] >= y[j] {
			return false
		}
		i, j = i+1, j+1
	}
}
