package alloc

import "cmp"

// oneL3 is an L3 domain that could hold the whole answer.
type oneL3 struct {
	l3 int
	// bound is a key that no answer in the domain is better than; low is the lowest eligible CPU of the domain.
	bound key
	low   int
}

// lowTally is the contribution of a domain and its lowest eligible CPU.
type lowTally struct {
	tally
	low int
}

// before reports whether domain a is tried before b: it has the better bound or, with equal bounds, the lower CPU.
func (a *oneL3) before(b *oneL3) bool {
	return cmp.Or(a.bound.compare(b.bound), a.low-b.low) < 0
}

// solveOneL3 finds the best answer in a single L3 domain, and reports whether there is one. All domains are counted at
// once; most of them cannot win and need no search.
func (s *Scratch) solveOneL3() bool {
	s.boundSingles()
	found, cpus := key{noAnswer, noAnswer}, mask{}
	for len(s.single) > 0 {
		first := 0
		for i := range s.single {
			if s.single[i].before(&s.single[first]) {
				first = i
			}
		}
		try, last := s.single[first], len(s.single)-1
		// Domains have no CPU in common. An answer whose domain begins above the lowest CPU of another answer
		// therefore comes after that answer. With equal bounds, so do all later domains.
		switch order := try.bound.compare(found); {
		case order > 0, order == 0 && try.low > cpus.next(0):
			s.single = s.single[:0]
			continue
		}
		s.single[first], s.single = s.single[last], s.single[:last]
		if s.p.only = try.l3; s.solve().Code != Placed {
			continue
		}
		if order := s.search.key.compare(found); order < 0 || order == 0 && s.search.cpus.before(&cpus) {
			found, cpus = s.search.key, s.search.cpus
		}
	}
	s.search.cpus = cpus
	return found.hi != noAnswer
}

// boundSingles lists the L3 domains with enough eligible CPUs.
func (s *Scratch) boundSingles() {
	m, e := s.eligible.m, &s.eligible
	s.eligible.survey()
	s.eligible.surveyCells()
	s.eligible.frees()
	s.single = s.single[:0]
	s.inL3 = resize(s.inL3, len(m.l3s))
	for c := range m.cells {
		at := &m.cells[c]
		if at.l3 == none || e.cells[c].cap == 0 {
			continue
		}
		in := &s.inL3[at.l3]
		if in.cap == 0 || e.low[c] < in.low {
			in.low = e.low[c]
		}
		in.add(&e.cells[c])
	}
	for i := range s.inL3 {
		if in := &s.inL3[i]; in.cap >= s.p.n {
			s.single = append(s.single, oneL3{l3: i, bound: s.boundSingle(i, &in.tally), low: in.low})
		}
	}
}

// boundSingle returns a key that no answer in the domain is better than. If the domain is in one node and one socket,
// all its terms except the core terms are exact. Otherwise nothing is known, and the key is zero.
func (s *Scratch) boundSingle(l3 int, in *tally) key {
	d, p := &s.eligible.m.l3s[l3], &s.p
	if d.node == none || d.socket == none {
		return key{}
	}
	here := []int{d.node}
	off, socket := 0, 0
	if p.picky && !p.prefer.has(d.node) {
		off = p.n
	}
	if d.socket < len(s.eligible.m.sockets)-1 {
		socket = s.eligible.freeSockets[d.socket] - p.n
	}
	return key{
		s.eligible.setTerms(here, off, 0),
		p.strategy.restTerms(1, s.eligible.terms(p.n, in), s.eligible.freeL3s[l3]-p.n, s.eligible.freeNodes[d.node]-p.n, socket),
	}
}
