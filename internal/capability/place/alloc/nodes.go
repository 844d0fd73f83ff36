package alloc

import "slices"

// nodeSearch is the search for the best set of NUMA nodes.
type nodeSearch struct {
	e      *eligible
	search *search
	l3s    l3Search
	// order holds the nodes that may be used, by lowest eligible CPU; tallies is parallel to it. all counts the cores of
	// all these nodes, and of the cells in no node.
	order   []candidate
	tallies []tally
	all     tally
	rest    rest
	ranks   ranks
	// fewestL3s is how many domains the CPUs from domains need. nearest is the least distance of a pair of nodes.
	fewestL3s, nearest int
	// chosen holds the nodes of the set, in their positions in the order. pools holds their CPUs and the CPUs in no
	// node, with one entry for each depth.
	chosen []int
	in     nodeSet
	pools  []mask
	// While listing is true, sets are recorded instead of searched. listed has the sets with the least bounds, best
	// first.
	listing bool
	listed  []listedSet
	// perSocket and sorted are memory of single methods.
	perSocket, sorted []int
}

// candidate is a node that may be used.
type candidate struct {
	node, low int
	// twin is the earlier position that can replace the node, or none.
	twin int
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

// run finds the best answer in exactly count nodes. These are the fewest that can hold it, so an answer within a set
// touches each node of the set.
func (ns *nodeSearch) run(count int) {
	e := ns.e
	ns.search.reset()
	e.surveyCells()
	e.frees()
	if ns.candidates(count); ns.runFew(count) {
		return
	}
	ns.prepare(count)
	start := nodeState{left: count, cap: e.home}
	ns.pools[0] = e.m.nowhere
	for i := range e.m.homeless {
		start.good += e.cells[i].good
	}
	if !ns.runListed(start) {
		ns.choose(0, start)
	}
}

// mostFew is the greatest number of nodes that are searched one by one. To bound them first would take longer.
const mostFew = 3

// runFew searches every set of nodes if there are only few sets, and reports whether that is so. It mostly is for the
// containers of a pod, which are within the few nodes of the pod.
func (ns *nodeSearch) runFew(count int) bool {
	switch {
	case len(ns.order) == count:
		for _, o := range ns.order {
			ns.chosen = append(ns.chosen, o.node)
		}
		ns.searchSet()
	case count == 1 && len(ns.order) <= mostFew:
		for _, o := range ns.order {
			ns.chosen = append(ns.chosen[:0], o.node)
			ns.searchSet()
		}
	default:
		return false
	}
	return true
}

// runListed searches the most promising sets first. It reports whether their answers rule out all other sets, as they
// usually do.
func (ns *nodeSearch) runListed(start nodeState) bool {
	saved := ns.search.budget - ns.search.budget/4
	ns.search.budget -= saved
	ns.listing, ns.listed = true, ns.listed[:0]
	ns.choose(0, start)
	ns.listing = false
	listed := ns.search.budget >= 0
	ns.search.budget += saved
	for _, set := range ns.listed {
		if set.bound.compare(ns.search.key) > 0 {
			return listed
		}
		for i, o := range ns.order {
			if set.nodes.has(i) {
				ns.chosen = append(ns.chosen, o.node)
			}
		}
		ns.searchSet()
		ns.chosen = ns.chosen[:0]
	}
	return listed && len(ns.listed) < mostListed
}

// list records the chosen nodes. Among equally good sets, sets with lower CPUs come first.
func (ns *nodeSearch) list(bound key) {
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

// candidates lists the nodes of the search.
func (ns *nodeSearch) candidates(count int) {
	e, p, m := ns.e, ns.e.p, ns.e.m
	allowed := p.single
	if count > 1 {
		allowed = p.across
	}
	ns.order, ns.in, ns.chosen = ns.order[:0], 0, ns.chosen[:0]
	least := max(1, p.n-e.most(allowed, count-1)) // A smaller node is too small for any set.
	for i, n := range e.nodes {
		if n >= least && count > 0 && allowed.has(i) {
			ns.order = append(ns.order, candidate{node: i, low: m.nodeCPUs[i].lowest(&e.cpus)})
		}
	}
	slices.SortFunc(ns.order, func(a, b candidate) int { return a.low - b.low })
}

// prepare prepares the bounds of the search.
func (ns *nodeSearch) prepare(count int) {
	e, m := ns.e, ns.e.m
	ns.all = tally{}
	ns.pools = resize(ns.pools, count+1)
	for i := range m.homeless {
		ns.all.add(&e.cells[i])
	}
	ns.nearest = farthest
	ns.tallies = resize(ns.tallies, len(ns.order))
	for k, o := range ns.order {
		for c := m.nodes[o.node].lo; c < m.nodes[o.node].hi; c++ {
			ns.tallies[k].add(&e.cells[c])
		}
		ns.all.add(&ns.tallies[k])
		for _, other := range ns.order[:k] {
			ns.nearest = min(ns.nearest, m.distance[o.node][other.node])
		}
	}
	ns.sum(count)
	ns.ranks.fill(e, ns.order)
	ns.fewestL3s, _ = ns.ranks.fewest(allNodes, e.p.n)
	ns.search.budget -= workItem * len(ns.ranks.caps)
	ns.findTwins()
}

// workNode is the cost of a step of the search for nodes, in units of the budget.
const workNode = 8

// choose tries every set that has the chosen nodes and more nodes from position i on. Sets with lower CPUs come first.
func (ns *nodeSearch) choose(i int, st nodeState) {
	if !ns.search.spend(workNode) || ns.listing && ns.search.budget < 0 {
		return
	}
	if len(ns.order)-i < st.left || st.cap+ns.rest.caps.of(i, st.left) < ns.e.p.n {
		return
	}
	if st.left == 0 {
		ns.try(&st)
		return
	}
	if !ns.promising(i, st) {
		return
	}
	if twin := ns.order[i].twin; twin == none || ns.in.has(twin) {
		ns.with(i, st)
	}
	ns.choose(i+1, st)
}

// with chooses the node at position i.
func (ns *nodeSearch) with(i int, st nodeState) {
	o, t, m, depth := &ns.order[i], &ns.tallies[i], ns.e.m, len(ns.chosen)
	st.left--
	st.cap += t.cap
	st.good += t.good
	st.free += ns.e.freeNodes[o.node]
	st.l3Free += ns.rest.l3Frees.at(i)
	st.preferred += ns.rest.preferred.at(i)
	st.distance += m.distanceTo(o.node, ns.chosen)
	ns.pools[depth+1] = ns.pools[depth]
	m.nodeCPUs[o.node].addTo(&ns.pools[depth+1])
	ns.chosen = append(ns.chosen, o.node)
	ns.in.add(i)
	ns.choose(i+1, st)
	ns.in.remove(i)
	ns.chosen = ns.chosen[:depth]
}

// try lists or searches one complete set of nodes.
func (ns *nodeSearch) try(st *nodeState) {
	bound, ok := ns.rankBound(st, ns.against())
	switch {
	case !ok:
	case ns.listing:
		ns.list(bound)
	case bound.compare(ns.search.key) <= 0:
		ns.searchSet()
	}
}

// searchSet searches the chosen nodes, if their bound is good enough.
func (ns *nodeSearch) searchSet() {
	if bound := ns.l3s.begin(ns.chosen); bound.compare(ns.search.key) <= 0 {
		ns.l3s.run(bound)
	}
}
