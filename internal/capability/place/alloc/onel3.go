package alloc

import "cmp"

// oneL3 is an L3 domain that could hold the whole answer.
type oneL3 struct {
	l3 int
	// bound is a key that no answer in the domain is better than; low is the lowest eligible CPU of the domain.
	bound key
	low   int
}

// first moves the domain that is tried first to the front: it has the best bound and, with equal bounds, the lowest CPU.
// Mostly few domains are tried, so that nothing sorts them all.
func first(domains []oneL3) *oneL3 {
	best := &domains[0]
	for i := range domains {
		if d := &domains[i]; cmp.Or(d.bound.compare(best.bound), d.low-best.low) < 0 {
			*best, *d = *d, *best
		}
	}
	return best
}

// solveOneL3 finds the best answer in a single L3 domain, and reports whether there is one. All domains are counted at
// once; most of them cannot win and need no search.
func (s *Scratch) solveOneL3() bool {
	s.boundSingles()
	found, cpus := key{noAnswer, noAnswer}, mask{}
	for rest := s.single; len(rest) > 0; rest = rest[1:] {
		try := first(rest)
		// Domains have no CPU in common. An answer whose domain begins above the lowest CPU of another answer
		// therefore comes after that answer. With equal bounds, so do all later domains.
		if order := try.bound.compare(found); order > 0 || order == 0 && try.low > cpus.next(0) {
			break
		}
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
	e, m := &s.eligible, s.eligible.m
	e.survey()
	e.surveyCells()
	e.frees()
	rs := &s.nodes.ranks
	rs.l3s, s.single = resize(rs.l3s, len(m.l3s)), s.single[:0]
	rs.addCells(e, 0, len(m.cells))
	for i := range rs.l3s {
		if t := &rs.l3s[i]; t.cap >= s.p.n {
			s.single = append(s.single, oneL3{i, e.boundSingle(i, t), m.l3CPUs[i].lowest(&e.cpus)})
		}
	}
}

// boundSingle returns a key that no answer in the domain is better than. If the domain is in one node and one socket,
// all its terms except the core terms are exact. Otherwise nothing is known, and the key is zero.
func (e *eligible) boundSingle(l3 int, in *tally) key {
	d, p := &e.m.l3s[l3], e.p
	if d.node == none || d.socket == none {
		return key{}
	}
	off, socket := 0, 0
	if p.picky && !p.prefer.has(d.node) {
		off = p.n
	}
	if d.socket < len(e.m.sockets)-1 {
		socket = e.freeSockets[d.socket] - p.n
	}
	return key{
		e.setTerms([]int{d.node}, off, 0),
		p.strategy.restTerms(1, e.terms(p.n, in), e.freeL3s[l3]-p.n, e.freeNodes[d.node]-p.n, socket),
	}
}
