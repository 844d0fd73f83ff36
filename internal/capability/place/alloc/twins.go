package alloc

// findTwins records for each node of the order an earlier node that can replace it. The earlier node makes the vector
// no worse and the CPU list lower, so a set with only the later node need not be searched. This keeps the search small
// on machines of many equal nodes.
func (ns *nodeSearch) findTwins() {
	for k := range ns.order {
		o := &ns.order[k]
		o.twin = none
		for j := k - 1; j >= 0; j-- {
			if other := &ns.order[j]; ns.tallies[j] == ns.tallies[k] && ns.e.alike(other.node, o.node) {
				if ns.e.lower(other.node, o.node) {
					o.twin = j
				}
				break
			}
		}
	}
}

// alikeAmounts reports whether two nodes have equal free amounts.
func (p *problem) alikeAmounts(a, b int) bool {
	for i := range p.amounts {
		if free := p.amounts[i].Free; max(a, b) < len(free) && free[a] != free[b] {
			return false
		}
	}
	return true
}

// alikeDistances reports whether two nodes have equal distances to every other node.
func (m *Machine) alikeDistances(a, b int) bool {
	for i := range m.nodes {
		if i != a && i != b && m.distance[a][i] != m.distance[b][i] {
			return false
		}
	}
	return true
}

// alike reports whether two nodes are interchangeable except for the numbers of their CPUs.
func (e *eligible) alike(a, b int) bool {
	m := e.m
	x, y := &m.nodes[a], &m.nodes[b]
	if x.socket == none || x.socket != y.socket || x.inDie != y.inDie || e.freeNodes[a] != e.freeNodes[b] || x.hi-x.lo != y.hi-y.lo ||
		e.p.prefer.has(a) != e.p.prefer.has(b) {
		return false
	}
	if !e.p.alikeAmounts(a, b) || !m.alikeDistances(a, b) {
		return false
	}
	for i := range x.hi - x.lo {
		if e.cells[x.lo+i] != e.cells[y.lo+i] || !e.alikeL3(&m.cells[x.lo+i], &m.cells[y.lo+i]) {
			return false
		}
	}
	return true
}

// alikeL3 reports whether the L3 domains of two cells are inside their nodes and have equally many free CPUs.
func (e *eligible) alikeL3(a, b *cell) bool {
	if a.l3 == none || b.l3 == none {
		return a.l3 == b.l3
	}
	x, y := &e.m.l3s[a.l3], &e.m.l3s[b.l3]
	return x.node == a.node && y.node == b.node && e.freeL3s[a.l3] == e.freeL3s[b.l3]
}

// lower reports whether the cores of two alike nodes can be matched so that each CPU of the first node is lower.
func (e *eligible) lower(a, b int) bool {
	x, y := &e.m.nodes[a], &e.m.nodes[b]
	for i := range x.hi - x.lo {
		a, b := &e.m.cells[x.lo+i], &e.m.cells[y.lo+i]
		if !e.lowerCell(a, b, &e.lead) || !e.lowerCell(a, b, &e.part) {
			return false
		}
	}
	return true
}

// lowerCell is lower for the cores of two cells that have CPUs in the mask.
func (e *eligible) lowerCell(a, b *cell, of *mask) bool {
	i, j := a.lo, b.lo
	for {
		i, j = e.m.nextCore(i, a.hi, of), e.m.nextCore(j, b.hi, of)
		if i == a.hi || j == b.hi {
			return i == a.hi && j == b.hi
		}
		if !e.lowerCore(i, j) {
			return false
		}
		i, j = i+1, j+1
	}
}

// nextCore returns the first core from c on with a CPU in the mask, or hi.
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

// lowerCore reports whether two cores have equally many threads and eligible CPUs, and each eligible CPU of the first
// is lower.
func (e *eligible) lowerCore(a, b int) bool {
	x, y, cpus := e.m.cores[a].cpus, e.m.cores[b].cpus, &e.cpus
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
