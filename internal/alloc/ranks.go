package alloc

import "slices"

// ranks lists the L3 domains with eligible CPUs by what each could add, for
// bounds of whole sets of nodes: the best few of a set are found by going down
// a list and leaving out what lies in other nodes.
type ranks struct {
	caps, good, frees []ranked
}

// ranked is one domain in a list. A domain in several nodes is in every set.
type ranked struct{ node, value int }

// sum adds up the first k values of domains in the nodes.
func sum(list []ranked, nodes *mask, k int) int {
	total := 0
	for i := 0; k > 0 && i < len(list); i++ {
		if r := &list[i]; r.node == none || nodes.has(r.node) {
			total += r.value
			k--
		}
	}
	return total
}

// fewest returns how many domains in the nodes it takes for n, values falling.
func fewest(list []ranked, nodes *mask, n int) int {
	count := 0
	for i := 0; n > 0 && i < len(list); i++ {
		if r := &list[i]; r.node == none || nodes.has(r.node) {
			n -= r.value
			count++
		}
	}
	return count
}

// rankL3s fills the lists.
func (s *Scratch) rankL3s() {
	rs := &s.nodes.ranks
	rs.caps, rs.good, rs.frees = rs.caps[:0], rs.good[:0], rs.frees[:0]
	for i, cap := range s.capL3s {
		if cap > 0 {
			node := s.m.l3s[i].node
			rs.caps = append(rs.caps, ranked{node, cap})
			rs.good = append(rs.good, ranked{node, s.goodL3s[i]})
			rs.frees = append(rs.frees, ranked{node, s.freeL3s[i]})
		}
	}
	falling := func(a, b ranked) int { return b.value - a.value }
	slices.SortFunc(rs.caps, falling)
	slices.SortFunc(rs.good, falling)
	if slices.SortFunc(rs.frees, falling); s.p.strategy == MostAllocated {
		slices.Reverse(rs.frees)
	}
	s.budget -= workItem * len(rs.caps)
}

// ruledOut says that every answer in the chosen nodes is worse than a key. It is
// told by the lists, before the domains are gathered.
func (s *Scratch) ruledOut(st *nodeState, against key) bool {
	ns, p := &s.nodes, &s.p
	var nodes mask
	for _, i := range ns.chosen {
		nodes.add(i)
	}
	off := s.offBound(st.preferred)
	// Every answer has at least so many domains; one with more is worse, and one
	// with as many has at most the best values of so many.
	l3s := fewest(ns.ranks.caps, &nodes, p.n-ns.outside)
	s.budget -= len(ns.ranks.caps) / 2
	if head(len(ns.chosen), off, l3s, coreTerms{}) > against.hi {
		return true
	}
	good := ns.outsideGood + sum(ns.ranks.good, &nodes, l3s)
	free := s.freeL3Bound(sum(ns.ranks.frees, &nodes, l3s))
	bound := key{
		head(len(ns.chosen), off, l3s, s.coreBound(good)),
		p.strategy.tail(free, s.freeNUMABound(st.free), s.socketBound(len(ns.order), 0), st.distance),
	}
	return bound.compare(against) > 0
}
