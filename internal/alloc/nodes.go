package alloc

import "slices"

// nodeSearch is the search for the best set of NUMA nodes.
type nodeSearch struct {
	// order holds the nodes that may be used, by lowest eligible CPU; the
	// slices after it are parallel to it.
	order   []int
	low     []int
	tallies []tally
	// What the rest of the order can still contribute.
	caps, good, frees, l3Frees, preferred sums
	// all is the tally of everything, outside what could come from no L3 domain,
	// fewestL3s how many domains the rest needs, nearest the least distance.
	all     tally
	outside int
	// outsideGood are those of outside that are good, ranks the domains.
	outsideGood int
	ranks       ranks
	fewestL3s   int
	nearest     int
	// twin is the earlier position that stands in for a node, none if none does;
	// in tells the positions that are chosen.
	twin []int
	in   mask
	// chosen holds the nodes of the set, pools what they and the cells in no
	// node contain, one entry a depth.
	chosen []int
	pools  []mask
	// While probing, only the bound of each set is taken: probe is the least,
	// probed its set.
	probing bool
	probe   key
	probed  []int
}

// nodeState is a partial set of nodes.
type nodeState struct {
	left, cap, good, free, l3Free, preferred, distance int
}

// searchNodes finds the best answer in exactly count nodes, the fewest that can
// hold it: so an answer within a set touches each of its nodes.
func (s *Scratch) searchNodes(count int) {
	ns := &s.nodes
	s.best = best{key: key{noAnswer, noAnswer}}
	s.surveyCells()
	s.frees()
	s.prepareNodes(count)
	start := nodeState{left: count, cap: s.eligible.home}
	ns.pools[0] = s.m.nowhere
	for i := range s.m.homeless {
		start.good += s.eligible.cells[i].good
	}
	if count > 0 && len(ns.order) > count {
		// The most promising set first: its answer prunes the others.
		saved := s.budget - s.budget/4
		s.budget -= saved
		ns.probing, ns.probe, ns.probed = true, s.best.key, ns.probed[:0]
		s.chooseNodes(0, start)
		ns.probing = false
		s.budget += saved
		if len(ns.probed) == count {
			ns.chosen = append(ns.chosen[:0], ns.probed...)
			s.searchL3s(s.boundNodes())
			ns.chosen = ns.chosen[:0]
		}
	}
	s.chooseNodes(0, start)
}

// prepareNodes lists the nodes of the search and adds up bounds.
func (s *Scratch) prepareNodes(count int) {
	m, e, ns := s.m, &s.eligible, &s.nodes
	allowed := &s.p.single
	if count > 1 {
		allowed = &s.p.across
	}
	ns.order, ns.all, ns.in = ns.order[:0], tally{}, mask{}
	for i, n := range e.nodes {
		if n > 0 && count > 0 && allowed.has(i) {
			ns.order = append(ns.order, i)
		}
	}
	slices.SortFunc(ns.order, func(a, b int) int { return s.lowOf(a) - s.lowOf(b) })
	ns.low = resize(ns.low, len(ns.order))
	ns.tallies = resize(ns.tallies, len(ns.order))
	ns.pools = resize(ns.pools, count+1)
	ns.chosen = ns.chosen[:0]
	for i := range m.homeless {
		ns.all.add(&e.cells[i])
	}
	for k, i := range ns.order {
		ns.low[k] = s.lowOf(i)
		for c := m.nodes[i].lo; c < m.nodes[i].hi; c++ {
			ns.tallies[k].add(&e.cells[c])
		}
		ns.all.add(&ns.tallies[k])
	}
	s.nodeSums(count)
	s.nodeBounds()
	if count > 1 {
		s.rankL3s()
	}
	s.findTwins()
}

// lowOf returns the lowest eligible CPU of a node.
func (s *Scratch) lowOf(node int) int {
	low := none
	for c := s.m.nodes[node].lo; c < s.m.nodes[node].hi; c++ {
		if l := s.eligible.low[c]; l != none && (low == none || l < low) {
			low = l
		}
	}
	return low
}

// What steps of the search for nodes cost, in units of the budget.
const (
	workNode  = 8
	workCells = 4 // for each cell and L3 domain of a set
)

// chooseNodes tries every set that has the nodes chosen so far and others from
// position i on, those with lower CPUs first.
func (s *Scratch) chooseNodes(i int, st nodeState) {
	ns := &s.nodes
	if !s.spend(workNode) {
		return
	}
	if st.left == 0 {
		s.tryNodes(&st)
		return
	}
	if len(ns.order)-i < st.left || st.cap+ns.caps.of(i, st.left) < s.p.n || !s.promising(i, st) {
		return
	}
	if twin := ns.twin[i]; twin == none || ns.in.has(twin) {
		s.withNode(i, st)
	}
	s.chooseNodes(i+1, st)
}

// withNode chooses the node at position i.
func (s *Scratch) withNode(i int, with nodeState) {
	ns := &s.nodes
	k, depth := ns.order[i], len(ns.chosen)
	with.left--
	with.cap += ns.tallies[i].cap
	with.good += ns.tallies[i].good
	with.free += s.freeNodes[k]
	with.l3Free += s.l3Free(k)
	with.preferred += s.preferredCap(i)
	with.distance += s.distanceTo(k, ns.chosen)
	ns.pools[depth+1] = ns.pools[depth]
	s.m.nodes[k].cpus.addTo(&ns.pools[depth+1])
	ns.chosen = append(ns.chosen, k)
	ns.in.add(i)
	s.chooseNodes(i+1, with)
	ns.in.remove(i)
	ns.chosen = ns.chosen[:depth]
}

// tryNodes searches one complete set of nodes, if its bound is good enough.
func (s *Scratch) tryNodes(st *nodeState) {
	ns := &s.nodes
	if len(ns.chosen) > 1 && s.ruledOut(st, s.against()) {
		return
	}
	bound := s.boundNodes()
	if ns.probing {
		if bound.compare(ns.probe) < 0 {
			ns.probe, ns.probed = bound, append(ns.probed[:0], ns.chosen...)
		}
		return
	}
	if bound.compare(s.best.key) <= 0 {
		s.searchL3s(bound)
	}
}
