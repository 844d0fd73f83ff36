package alloc

import "slices"

// nodeSearch is the search for the best set of NUMA nodes.
type nodeSearch struct {
	// order holds the nodes that may be used, by lowest eligible CPU; the slices after it are parallel to it.
	order   []int
	low     []int
	tallies []tally
	rest
	// all is the tally of all nodes and cells. outside is the number of CPUs that could come from no L3 domain.
	// fewestL3s is how many domains the other CPUs need. nearest is the least distance of a pair.
	all     tally
	outside int
	// outsideGood is the number of good CPUs in outside; ranks lists the domains.
	outsideGood int
	ranks       ranks
	fewestL3s   int
	nearest     int
	// twin is the earlier position that can replace a node, or none. in holds the chosen positions.
	twin []int
	in   nodeSet
	// chosen holds the nodes of the set. pools holds their CPUs and the CPUs in no node, with one entry for each
	// depth.
	chosen []int
	pools  []mask
	// While listing is true, sets are recorded instead of searched. listed has the sets with the least bounds, best
	// first.
	listing bool
	listed  []listedSet
}

// rest has the sums of what the remaining nodes of the order can still contribute.
type rest struct {
	caps, good, frees, l3Frees, preferred sums
	// amounts are the sums of the problem's amounts.
	amounts []sums
}

// listedSet is a set of nodes, by position in the order, and its bound: no answer in it has a better key.
type listedSet struct {
	bound key
	nodes nodeSet
}

// mostListed is the greatest number of listed sets.
const mostListed = 32

// nodeState is a partial set of nodes.
type nodeState struct {
	left, cap, good, free, l3Free, preferred, distance int
}

// searchNodes finds the best answer in exactly count nodes. These are the fewest that can hold it, so an answer within
// a set touches each node of the set.
func (s *Scratch) searchNodes(count int) {
	ns := &s.nodes
	s.search.reset()
	s.eligible.surveyCells()
	s.eligible.frees()
	s.prepareNodes(count)
	start := nodeState{left: count, cap: s.eligible.home}
	ns.pools[0] = s.eligible.m.nowhere
	for i := range s.eligible.m.homeless {
		start.good += s.eligible.cells[i].good
	}
	if !s.searchListed(start) {
		s.chooseNodes(0, start)
	}
}

// searchListed searches the most promising sets first. It reports whether their answers rule out all other sets, as
// they usually do.
func (s *Scratch) searchListed(start nodeState) bool {
	ns := &s.nodes
	saved := s.search.budget - s.search.budget/4
	s.search.budget -= saved
	ns.listing, ns.listed = true, ns.listed[:0]
	s.chooseNodes(0, start)
	ns.listing = false
	listed := s.search.budget >= 0
	s.search.budget += saved
	for _, set := range ns.listed {
		if set.bound.compare(s.search.key) > 0 {
			return listed
		}
		for i, node := range ns.order {
			if set.nodes.has(i) {
				ns.chosen = append(ns.chosen, node)
			}
		}
		s.searchSet()
		ns.chosen = ns.chosen[:0]
	}
	return listed && len(ns.listed) < mostListed
}

// list records the chosen nodes. Among equally good sets, sets with lower CPUs come first.
func (s *Scratch) list(bound key) {
	ns := &s.nodes
	if len(ns.listed) == mostListed {
		if bound.compare(ns.listed[mostListed-1].bound) >= 0 {
			return
		}
		ns.listed = ns.listed[:mostListed-1]
	}
	i := len(ns.listed)
	for ns.listed = append(ns.listed, listedSet{}); i > 0 && bound.compare(ns.listed[i-1].bound) < 0; i-- {
		ns.listed[i] = ns.listed[i-1]
	}
	ns.listed[i] = listedSet{bound, ns.in}
}

// prepareNodes lists the nodes of the search and prepares its bounds.
func (s *Scratch) prepareNodes(count int) {
	m, e, ns := s.eligible.m, &s.eligible, &s.nodes
	allowed := s.p.single
	if count > 1 {
		allowed = s.p.across
	}
	ns.order, ns.all, ns.in = ns.order[:0], tally{}, 0
	least := max(1, s.p.n-s.eligible.most(allowed, count-1)) // A smaller node is too small for any set.
	for i, n := range e.nodes {
		if n >= least && count > 0 && allowed.has(i) {
			ns.order = append(ns.order, i)
		}
	}
	slices.SortFunc(ns.order, func(a, b int) int { return s.eligible.lowOf(a) - s.eligible.lowOf(b) })
	ns.low = resize(ns.low, len(ns.order))
	ns.tallies = resize(ns.tallies, len(ns.order))
	ns.pools = resize(ns.pools, count+1)
	ns.chosen = ns.chosen[:0]
	for i := range m.homeless {
		ns.all.add(&e.cells[i])
	}
	for k, i := range ns.order {
		ns.low[k] = s.eligible.lowOf(i)
		for c := m.nodes[i].lo; c < m.nodes[i].hi; c++ {
			ns.tallies[k].add(&e.cells[c])
		}
		ns.all.add(&ns.tallies[k])
	}
	s.nodeSums(count)
	s.nodeBounds()
	s.rankL3s()
	s.findTwins()
}

// lowOf returns the lowest eligible CPU of a node.
func (e *eligible) lowOf(node int) int {
	low := none
	for c := e.m.nodes[node].lo; c < e.m.nodes[node].hi; c++ {
		if l := e.low[c]; l != none && (low == none || l < low) {
			low = l
		}
	}
	return low
}

// workNode is the cost of a step of the search for nodes, in units of the budget.
const workNode = 8

// chooseNodes tries every set that has the chosen nodes and more nodes from position i on. Sets with lower CPUs come
// first.
func (s *Scratch) chooseNodes(i int, st nodeState) {
	ns := &s.nodes
	if !s.search.spend(workNode) || ns.listing && s.search.budget < 0 {
		return
	}
	if len(ns.order)-i < st.left || st.cap+ns.caps.of(i, st.left) < s.p.n {
		return
	}
	if st.left == 0 {
		s.tryNodes(&st)
		return
	}
	if !s.promising(i, st) {
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
	with.free += s.eligible.freeNodes[k]
	with.l3Free += ns.l3Frees.at(i)
	with.preferred += ns.preferred.at(i)
	with.distance += s.eligible.m.distanceTo(k, ns.chosen)
	ns.pools[depth+1] = ns.pools[depth]
	s.eligible.m.nodes[k].cpus.addTo(&ns.pools[depth+1])
	ns.chosen = append(ns.chosen, k)
	ns.in.add(i)
	s.chooseNodes(i+1, with)
	ns.in.remove(i)
	ns.chosen = ns.chosen[:depth]
}

// tryNodes lists or searches one complete set of nodes.
func (s *Scratch) tryNodes(st *nodeState) {
	bound, ok := s.rankBound(st, s.against())
	switch {
	case !ok:
	case s.nodes.listing:
		s.list(bound)
	case bound.compare(s.search.key) <= 0:
		s.searchSet()
	}
}

// searchSet searches the chosen nodes, if their bound is good enough.
func (s *Scratch) searchSet() {
	if bound := s.l3s.begin(s.nodes.chosen); bound.compare(s.search.key) <= 0 {
		s.l3s.run(bound)
	}
}
