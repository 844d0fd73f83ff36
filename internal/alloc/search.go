package alloc

import "slices"

// solve finds the best answer of a problem. ok is false if there is none.
func (s *Scratch) solve(m *Machine, p *problem) (mask, Vector, bool) {
	s.best = found{}
	s.survey(m, p)
	for count := 0; count <= min(p.most, len(m.nodes)) && !s.best.ok; count++ {
		s.nodes = s.nodes[:0]
		s.chooseNodes(m, p, 0, count)
	}
	if s.best.ok && s.best.vector.NUMANodes > 1 && s.best.cpus == (mask{}) {
		return mask{}, Vector{}, false
	}
	return s.best.cpus, s.best.vector, s.best.ok
}

// survey counts what each core and cell can contribute.
func (s *Scratch) survey(m *Machine, p *problem) {
	s.avail = resize(s.avail, len(m.cores))
	s.cap = resize(s.cap, len(m.cells))
	for i := range m.cores {
		c := &m.cores[i]
		at := &m.cells[c.cell]
		if p.only != none && at.l3 != p.only || at.node == none && !p.home {
			continue
		}
		n := 0
		for _, cpu := range c.cpus {
			if p.free.has(int(cpu)) {
				n++
			}
		}
		if p.clean && n < len(c.cpus) || p.whole && !divides(n, p.chain) {
			n = 0
		}
		s.avail[i] = uint8(n)
		if p.one {
			n = min(n, 1)
		}
		s.cap[c.cell] += n
	}
}

// divides reports whether whole cores of n threads can fill up any multiple of
// chain together with each other: n is chain, or a power of two that divides it.
func divides(n, chain int) bool {
	return n > 0 && (n == chain || chain%n == 0 && n&(n-1) == 0)
}

// chooseNodes tries every set of count nodes.
func (s *Scratch) chooseNodes(m *Machine, p *problem, from, count int) {
	if len(s.nodes) == count {
		s.tryNodes(m, p)
		return
	}
	allowed := &p.single
	if count > 1 {
		allowed = &p.across
	}
	for i := from; i < len(m.nodes); i++ {
		if allowed.has(i) {
			s.nodes = append(s.nodes, i)
			s.chooseNodes(m, p, i+1, count)
			s.nodes = s.nodes[:len(s.nodes)-1]
		}
	}
}

func (s *Scratch) tryNodes(m *Machine, p *problem) {
	n := 0
	for i := range m.cells {
		if s.inNodes(&m.cells[i]) {
			n += s.cap[i]
		}
	}
	if n < p.n {
		return
	}
	s.l3s = s.l3s[:0]
	s.chooseL3s(m, p, 0)
}

func (s *Scratch) inNodes(at *cell) bool {
	return at.node == none || slices.Contains(s.nodes, at.node)
}

// chooseL3s tries every set of L3 domains.
func (s *Scratch) chooseL3s(m *Machine, p *problem, from int) {
	s.tryL3s(m, p)
	for i := from; i < len(m.l3s); i++ {
		s.l3s = append(s.l3s, i)
		s.chooseL3s(m, p, i+1)
		s.l3s = s.l3s[:len(s.l3s)-1]
	}
}

func (s *Scratch) tryL3s(m *Machine, p *problem) {
	in := func(at *cell) bool {
		return s.inNodes(at) && (at.l3 == none || slices.Contains(s.l3s, at.l3))
	}
	n := 0
	for i := range m.cells {
		if in(&m.cells[i]) {
			n += s.cap[i]
		}
	}
	if n < p.n || s.best.ok && len(s.l3s) > s.best.vector.L3s && s.best.vector.OffPreferred == 0 {
		return
	}
	e := s.table(m, p, in)
	if !e.ok {
		return
	}
	v := m.vector(p, &e.cpus)
	if v.NUMANodes != len(s.nodes) || v.L3s != len(s.l3s) {
		return
	}
	order := -1
	if s.best.ok {
		order = v.Compare(s.best.vector, p.bind, p.least)
	}
	if order < 0 || order == 0 && e.cpus.before(&s.best.cpus) {
		s.best = found{ok: true, vector: v, cpus: e.cpus}
	}
}

// vector measures an answer.
func (m *Machine) vector(p *problem, cpus *mask) Vector {
	var v Vector
	left := p.free
	left.andNot(cpus)
	rest := func(domain *mask) int {
		in := left
		in.and(domain)
		return in.size()
	}
	var nodes []int
	for i := range m.nodes {
		if n := &m.nodes[i]; n.cpus.intersects(cpus) {
			nodes = append(nodes, i)
			v.FreeNUMA += rest(&n.cpus)
		}
	}
	v.NUMANodes = len(nodes)
	for i, a := range nodes {
		for _, b := range nodes[:i] {
			v.Distance += m.distance[a][b]
		}
	}
	for i := range m.l3s {
		if d := &m.l3s[i]; d.cpus.intersects(cpus) {
			v.L3s++
			v.FreeL3 += rest(&d.cpus)
		}
	}
	for i := range m.sockets[:len(m.sockets)-1] {
		if d := &m.sockets[i]; d.cpus.intersects(cpus) {
			v.FreeSocket += rest(&d.cpus)
		}
	}
	m.vectorCores(p, cpus, &v)
	return v
}

func (m *Machine) vectorCores(p *problem, cpus *mask, v *Vector) {
	for i := range m.cores {
		c := &m.cores[i]
		if !c.threads.intersects(cpus) {
			continue
		}
		v.Cores++
		at := &m.cells[c.cell]
		if p.picky && (at.node == none || !p.prefer.has(at.node)) {
			in := c.threads
			in.and(cpus)
			v.OffPreferred += in.size()
		}
		if !isSubset(&c.threads, cpus) {
			v.Split++
			if isSubset(&c.threads, &p.free) {
				v.Broken++
			}
		}
	}
}
