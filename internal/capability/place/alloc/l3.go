package alloc

import "slices"

// l3Search is the search for the best set of L3 domains within a set of nodes.
type l3Search struct {
	e      *eligible
	search *search
	picker picker
	// nodes is the set of nodes.
	nodes []int
	// items are the domains to choose from. During gather, slots holds for each index of a domain the position of its
	// item plus one, or mandatory for a domain that every answer touches.
	items []item
	slots []int
	// need is how many CPUs the chosen domains and base together must provide. base counts the CPUs in no domain or in
	// mandatory domains, all the cores of base and of all items.
	need      int
	base, all tally
	// forced is the part that every answer has.
	forced forced
	// set has the terms that the set of nodes determines. numa and socket are FreeNUMA and FreeSocket, which the nodes
	// determine too; socket is not valid if byL3 says that it depends on the domains.
	set          uint64
	numa, socket int
	byL3         bool
	// The sums of what the remaining items can still contribute.
	caps, good, frees, barred sums
	// chosen holds positions of items. pools holds the CPUs of base and of the chosen items, with one entry for each
	// depth.
	chosen []int
	pools  []mask
}

// item is the part of an L3 domain that is within the nodes.
type item struct {
	tally
	l3, free, low int
	cpus          mask
}

// barred returns the number of free CPUs of the domain that no answer can use.
func (it *item) barred() int { return it.free - it.cap }

// l3State is a partial set of domains.
type l3State struct {
	left, free, barred int
	tally
}

// begin gathers the L3 domains of a set of nodes and returns a bound: no answer within the nodes has a better key.
func (ls *l3Search) begin(nodes []int) key {
	ls.nodes = nodes
	ls.gather(ls.measure())
	ls.search.budget -= workCells*len(ls.items) + len(ls.items)*len(ls.items)/8 + len(ls.slots)/4
	more := ls.fewest()
	ls.sort()
	ls.sum()
	ls.all = ls.base
	for i := range ls.items {
		ls.all.add(&ls.items[i].tally)
	}
	return ls.bound(more, ls.base.good+ls.good.best(more), ls.forced.free+ls.frees.best(more), ls.barred.best(more))
}

// measure determines the terms that depend only on the nodes, and returns how many CPUs off the preferred nodes every
// answer has.
func (ls *l3Search) measure() (off int) {
	e, p := ls.e, ls.e.p
	free, preferred, distance := 0, 0, 0
	_, socket := e.touchedSockets(ls.nodes)
	ls.socket, ls.byL3 = socket-p.n, !e.fast
	for k, i := range ls.nodes {
		free += e.freeNodes[i]
		if !p.picky || p.prefer.has(i) {
			preferred += e.nodes[i]
		}
		distance += e.m.distanceTo(i, ls.nodes[:k])
		ls.byL3 = ls.byL3 || e.m.nodes[i].socket == none
	}
	if len(e.m.sockets) == 1 {
		ls.socket, ls.byL3 = 0, false
	}
	ls.numa, off = p.left(free, e.home), p.off(preferred)
	ls.set = e.setTerms(ls.nodes, off, distance)
	return off
}

// gather lists the L3 domains of the nodes.
func (ls *l3Search) gather(off int) {
	e, p := ls.e, ls.e.p
	ls.items, ls.base, ls.forced = ls.items[:0], tally{}, forced{l3s: ls.forced.l3s[:0]}
	ls.pools = growKeep(ls.pools, 1)
	ls.pools[0] = mask{}
	ls.slots = resize(ls.slots, len(e.m.l3s))
	ls.need = p.n
	split := e.fast && off > 0 && off < p.n
	if split {
		ls.need = off
		for c := range ls.cells {
			if p.prefers(&e.m.cells[c]) {
				ls.force(c)
			}
		}
	}
	for c := range ls.cells {
		if !split || !p.prefers(&e.m.cells[c]) {
			ls.gatherCell(c)
		}
	}
}

// cells yields each cell of the nodes, and each cell of no node, that can contribute a CPU.
func (ls *l3Search) cells(yield func(c int) bool) {
	all := ls.e.cells
	for c := range ls.e.m.homeless {
		if all[c].cap > 0 && !yield(c) {
			return
		}
	}
	for _, i := range ls.nodes {
		for c := ls.e.m.nodes[i].lo; c < ls.e.m.nodes[i].hi; c++ {
			if all[c].cap > 0 && !yield(c) {
				return
			}
		}
	}
}

// gatherCell adds the contribution of a cell to the item of its domain, or to base.
func (ls *l3Search) gatherCell(c int) {
	e, at, t := ls.e, &ls.e.m.cells[c], &ls.e.cells[c]
	if at.l3 == none || ls.slots[at.l3] == mandatory {
		ls.base.add(t)
		at.cpus.addTo(&ls.pools[0])
		return
	}
	if ls.slots[at.l3] == 0 {
		ls.items = append(ls.items, item{l3: at.l3, free: e.freeL3s[at.l3], low: e.low[c]})
		ls.slots[at.l3] = len(ls.items)
	}
	it := &ls.items[ls.slots[at.l3]-1]
	it.add(t)
	it.low = min(it.low, e.low[c])
	at.cpus.addTo(&it.cpus)
}

// fewest returns the least number of domains that every answer needs. It drops domains that are too small even together
// with the greatest others.
func (ls *l3Search) fewest() int {
	ls.caps.reset(1)
	for i := range ls.items {
		ls.caps.append(ls.items[i].cap)
	}
	rest := ls.need - ls.base.cap
	sorted := ls.caps.sort(len(ls.items))
	more := fewestOf(sorted, rest)
	if !ls.e.fast || more == 0 {
		return more
	}
	for _, n := range sorted[:more-1] {
		rest -= n
	}
	kept := 0
	for i := range ls.items {
		if ls.items[i].cap >= rest {
			if kept < i {
				ls.items[kept] = ls.items[i]
			}
			kept++
		}
	}
	ls.items = ls.items[:kept]
	return more
}

// sum collects the values of the domains for the sums.
func (ls *l3Search) sum() {
	ls.caps.reset(1)
	ls.good.reset(1)
	ls.frees.reset(ls.e.p.sign())
	ls.barred.reset(-1)
	for i := range ls.items {
		it := &ls.items[i]
		ls.caps.append(it.cap)
		ls.good.append(it.good)
		ls.frees.append(it.free)
		ls.barred.append(it.barred())
	}
}

// bound returns a bound for answers that use more L3 domains in addition to the mandatory ones. good is the most good
// CPUs of these answers. free and barred bound the free and the barred CPUs of the touched domains.
func (ls *l3Search) bound(more, good, free, barred int) key {
	p, t := ls.e.p, ls.all
	t.good = good
	left, socket := p.left(free, ls.base.cap), ls.socket
	if p.strategy == MostAllocated {
		left = max(left, barred)
	}
	if ls.byL3 {
		_, socket = ls.e.touchedSockets(ls.nodes)
		socket = max(0, socket-p.n)
		if p.strategy == LeastAllocated {
			socket = freeMost
		}
	}
	return ls.key(more, &t, left, socket)
}

// key returns the key of answers that use more L3 domains in addition to the mandatory ones. t counts the cores of
// these answers, apart from the forced CPUs.
func (ls *l3Search) key(more int, t *tally, freeL3, freeSocket int) key {
	terms := ls.e.terms(ls.need, t)
	terms.first += ls.forced.first
	return key{ls.set, ls.e.p.strategy.restTerms(len(ls.forced.l3s)+more, terms, freeL3, ls.numa, freeSocket)}
}

// run finds the best answer within the nodes; bound is their bound. It tries the smallest sets of domains first, so
// every answer touches all domains of its set: an answer in fewer domains would be better.
func (ls *l3Search) run(bound key) {
	start := l3State{tally: ls.base, free: ls.forced.free}
	ls.chosen = ls.chosen[:0]
	ls.search.budget -= workItem * len(ls.items)
	for more := bound.l3s() - len(ls.forced.l3s); more <= len(ls.items); more++ {
		ls.search.budget -= 2 * len(ls.items) * more
		ls.caps.build(more)
		ls.good.build(more)
		ls.frees.build(more)
		ls.barred.build(more)
		ls.pools = growKeep(ls.pools, more+1)
		start.left = more
		ls.choose(0, start)
		next := key{ls.set, fewestRest(len(ls.forced.l3s) + more + 1)}
		if ls.e.fast || next.compare(ls.search.key) > 0 {
			return
		}
	}
}

// sort sorts the items by their lowest CPU. They are mostly sorted already, and a comparison copies two whole items.
func (ls *l3Search) sort() {
	for i := range len(ls.items) - 1 {
		if ls.items[i].low > ls.items[i+1].low {
			slices.SortFunc(ls.items, func(a, b item) int { return a.low - b.low })
			return
		}
	}
}

// The costs of the steps of the search for L3 domains, in units of the budget.
const (
	workL3    = 8
	workItem  = 20 // to sort and sum, for each domain of a set of nodes
	workPick  = 30 // and, with many threads a core, for each CPU
	workCells = 4  // to gather, for each cell and L3 domain of a set
)

// choose tries every set that has the chosen domains and more domains from position i on. Sets with lower CPUs come
// first.
func (ls *l3Search) choose(i int, st l3State) {
	if !ls.search.spend(workL3) {
		return
	}
	depth := len(ls.chosen)
	if st.left == 0 {
		ls.try(&ls.pools[depth], &st)
		return
	}
	if len(ls.items)-i < st.left || st.cap+ls.caps.of(i, st.left) < ls.need {
		return
	}
	bound := ls.bound(depth+st.left, st.good+ls.good.of(i, st.left), st.free+ls.frees.of(i, st.left), st.barred+ls.barred.of(i, st.left))
	order := bound.compare(ls.search.key)
	if order > 0 || order == 0 && ls.search.hopeless(&ls.pools[depth], &ls.forced.cpus, ls.items[i].low) {
		return
	}
	it, with := &ls.items[i], st
	with.left--
	with.free += it.free
	with.barred += it.barred()
	with.add(&it.tally)
	ls.pools[depth+1] = ls.pools[depth]
	ls.pools[depth+1].or(&it.cpus)
	ls.chosen = append(ls.chosen, i)
	ls.choose(i+1, with)
	ls.chosen = ls.chosen[:depth]
	ls.choose(i+1, st)
}

// try finds the best answer within a pool of CPUs and remembers it if it is the best of all.
func (ls *l3Search) try(pool *mask, st *l3State) {
	e, p, free := ls.e, ls.e.p, 0
	switch {
	case st.cap < ls.need:
		return
	case !e.fast:
		ls.picker.table.try(pool)
		return
	case len(e.m.l3s) > 0:
		free = st.free - p.n
	}
	k := ls.key(len(ls.chosen), &st.tally, free, ls.freeSocket())
	if k.compare(ls.search.key) > 0 {
		return
	}
	ls.search.budget -= workPick
	if p.kind.wide > 2 {
		ls.search.budget -= workPick * p.n / 8
	}
	cpus := ls.picker.pick(pool, &st.tally, ls.need)
	cpus.or(&ls.forced.cpus)
	ls.search.keep(k, cpus)
}

// freeSocket returns FreeSocket of the answers that touch exactly the chosen domains.
func (ls *l3Search) freeSocket() int {
	if !ls.byL3 {
		return ls.socket
	}
	e := ls.e
	ls.search.budget -= len(ls.forced.l3s) + len(ls.chosen)
	free, seen := -e.p.n, mask{}
	touch := func(socket int) {
		if socket != none && !seen.has(socket) {
			seen.add(socket)
			free += e.freeSockets[socket]
		}
	}
	for _, i := range ls.nodes {
		touch(e.m.nodes[i].socket)
	}
	for _, l3 := range ls.forced.l3s {
		touch(e.m.l3s[l3].socket)
	}
	for _, i := range ls.chosen {
		touch(e.m.l3s[ls.items[i].l3].socket)
	}
	return free
}
