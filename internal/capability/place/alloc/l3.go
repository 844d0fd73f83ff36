package alloc

import "slices"

// l3Search is the search for the best set of L3 domains within a set of nodes.
type l3Search struct {
	// items are the domains to choose from. During gather, slots holds for each index of a domain the position of its
	// item plus one, or mandatory for a domain that every answer touches.
	items []item
	slots []int
	// need is how many CPUs the chosen domains and base together must provide. base counts the CPUs in no domain or in
	// mandatory domains.
	need int
	base tally
	// forced is the part that every answer has.
	forced forced
	// ones, parts and shares are the sums over all items and base.
	ones, parts int
	shares      shares
	// set has the terms that the set of nodes determines, including off. numa and socket are FreeNUMA and FreeSocket,
	// which the nodes determine too; socket is not valid if byL3 says that it depends on the domains.
	set               uint64
	off, numa, socket int
	byL3              bool
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

// boundNodes gathers the L3 domains of the chosen nodes and returns a bound: no answer within the nodes has a better
// key.
func (s *Scratch) boundNodes() key {
	ls := &s.l3s
	s.nodeTerms()
	s.gather()
	s.search.budget -= workCells*len(ls.items) + len(ls.items)*len(ls.items)/8 + len(ls.slots)/4
	more := s.fewestItems()
	s.itemSums()
	ls.ones, ls.parts, ls.shares = ls.base.ones, ls.base.parts, ls.base.shares
	for i := range ls.items {
		it := &ls.items[i]
		ls.ones += it.ones
		ls.parts += it.parts
		ls.shares.add(&it.shares)
	}
	return s.boundL3s(more, ls.base.good+ls.good.best(more), ls.forced.free+ls.frees.best(more), ls.barred.best(more))
}

// fewestItems returns the least number of domains that every answer needs. It drops domains that are too small even
// together with the greatest others.
func (s *Scratch) fewestItems() int {
	ls := &s.l3s
	ls.caps.reset(false)
	for i := range ls.items {
		ls.caps.append(ls.items[i].cap)
	}
	rest := ls.need - ls.base.cap
	sorted := ls.caps.sort(len(ls.items))
	more := fewestOf(sorted, rest)
	if !s.eligible.fast || more == 0 {
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

// itemSums collects the values of the domains for the sums.
func (s *Scratch) itemSums() {
	ls := &s.l3s
	ls.caps.reset(false)
	ls.good.reset(false)
	ls.frees.reset(s.p.strategy == MostAllocated)
	ls.barred.reset(true)
	for i := range ls.items {
		it := &ls.items[i]
		ls.caps.append(it.cap)
		ls.good.append(it.good)
		ls.frees.append(it.free)
		ls.barred.append(it.barred())
	}
}

// boundL3s returns a bound for answers that use more L3 domains in addition to the mandatory ones. good is the most
// good CPUs of these answers. free and barred bound the free and the barred CPUs of the touched domains.
func (s *Scratch) boundL3s(more, good, free, barred int) key {
	p, ls := &s.p, &s.l3s
	terms := s.eligible.terms(ls.need, &tally{good: good, ones: ls.ones, parts: ls.parts, shares: ls.shares})
	terms.first += ls.forced.terms.first
	left := max(0, free-p.n+s.p.slack(ls.base.cap))
	if p.strategy == MostAllocated {
		left = max(left, barred)
	}
	socket := ls.socket
	if ls.byL3 {
		socket = max(0, s.eligible.touchedSockets(s.nodes.chosen)-p.n)
		if p.strategy == LeastAllocated {
			socket = freeMost
		}
	}
	return key{ls.set, p.strategy.restTerms(len(ls.forced.l3s)+more, terms, min(left, freeMost), ls.numa, socket)}
}

// nodeTerms computes the terms that depend only on the nodes.
func (s *Scratch) nodeTerms() {
	m, p, ls, chosen := s.eligible.m, &s.p, &s.l3s, s.nodes.chosen
	free, preferred, distance := 0, 0, 0
	ls.socket, ls.byL3 = s.eligible.touchedSockets(s.nodes.chosen)-p.n, !s.eligible.fast
	for k, i := range chosen {
		free += s.eligible.freeNodes[i]
		if !p.picky || p.prefer.has(i) {
			preferred += s.eligible.nodes[i]
		}
		distance += s.eligible.m.distanceTo(i, chosen[:k])
		if m.nodes[i].socket == none {
			ls.byL3 = true
		}
	}
	if len(m.sockets) == 1 {
		ls.socket, ls.byL3 = 0, false
	}
	ls.numa = min(max(0, free-p.n+s.p.slack(s.eligible.home)), freeMost)
	ls.off = 0
	if p.picky {
		ls.off = max(0, p.n-preferred)
	}
	ls.set = setTerms(len(chosen), p.unheld(chosen), ls.off, nearness{s.eligible.m.socketsOf(chosen), s.eligible.m.diesOf(chosen), distance})
}

// gather lists the L3 domains of the chosen nodes.
func (s *Scratch) gather() {
	ls := &s.l3s
	ls.items, ls.base, ls.forced = ls.items[:0], tally{}, forced{l3s: ls.forced.l3s[:0]}
	ls.pools = growKeep(ls.pools, 1)
	ls.pools[0] = mask{}
	ls.slots = resize(ls.slots, len(s.eligible.m.l3s))
	ls.need = s.p.n
	split := s.eligible.fast && ls.off > 0 && ls.off < s.p.n
	if split {
		ls.need = ls.off
		s.eachCell(func(c int) {
			if s.p.prefers(&s.eligible.m.cells[c]) {
				s.force(c)
			}
		})
	}
	s.eachCell(func(c int) {
		if !split || !s.p.prefers(&s.eligible.m.cells[c]) {
			s.gatherCell(c)
		}
	})
}

// eachCell calls f for each cell of the chosen nodes, and each cell of no node, that can contribute a CPU.
func (s *Scratch) eachCell(f func(c int)) {
	for c := range s.eligible.m.homeless {
		if s.eligible.cells[c].cap > 0 {
			f(c)
		}
	}
	for _, i := range s.nodes.chosen {
		for c := s.eligible.m.nodes[i].lo; c < s.eligible.m.nodes[i].hi; c++ {
			if s.eligible.cells[c].cap > 0 {
				f(c)
			}
		}
	}
}

// gatherCell adds the contribution of a cell to the item of its domain, or to base.
func (s *Scratch) gatherCell(c int) {
	ls, at, t := &s.l3s, &s.eligible.m.cells[c], &s.eligible.cells[c]
	if at.l3 == none || ls.slots[at.l3] == mandatory {
		ls.base.add(t)
		at.cpus.addTo(&ls.pools[0])
		return
	}
	if ls.slots[at.l3] == 0 {
		ls.items = append(ls.items, item{l3: at.l3, free: s.eligible.freeL3s[at.l3], low: s.eligible.low[c]})
		ls.slots[at.l3] = len(ls.items)
	}
	it := &ls.items[ls.slots[at.l3]-1]
	it.add(t)
	it.low = min(it.low, s.eligible.low[c])
	at.cpus.addTo(&it.cpus)
}

// searchL3s finds the best answer within the chosen nodes; bound is their bound. It tries the smallest sets of domains
// first, so every answer touches all domains of its set: an answer in fewer domains would be better.
func (s *Scratch) searchL3s(bound key) {
	ls := &s.l3s
	start := l3State{tally: ls.base, free: ls.forced.free}
	slices.SortFunc(ls.items, func(a, b item) int { return a.low - b.low })
	s.itemSums()
	ls.chosen = ls.chosen[:0]
	s.search.budget -= workItem * len(ls.items)
	more := bound.l3s() - len(ls.forced.l3s)
	for ; more <= len(ls.items); more++ {
		s.search.budget -= 2 * len(ls.items) * more
		ls.caps.build(more)
		ls.good.build(more)
		ls.frees.build(more)
		ls.barred.build(more)
		ls.pools = growKeep(ls.pools, more+1)
		start.left = more
		s.chooseL3s(0, start)
		next := key{ls.set, fewestRest(len(ls.forced.l3s) + more + 1)}
		if s.eligible.fast || next.compare(s.search.key) > 0 {
			return
		}
	}
}

// The costs of the steps of the search for L3 domains, in units of the budget.
const (
	workL3   = 8
	workItem = 20 // to sort and sum, for each domain of a set of nodes
	workPick = 30 // and, with many threads a core, for each CPU
)

// chooseL3s tries every set that has the chosen domains and more domains from position i on. Sets with lower CPUs come
// first.
func (s *Scratch) chooseL3s(i int, st l3State) {
	ls := &s.l3s
	if !s.search.spend(workL3) {
		return
	}
	depth := len(ls.chosen)
	if st.left == 0 {
		s.tryL3s(&ls.pools[depth], &st)
		return
	}
	if len(ls.items)-i < st.left || st.cap+ls.caps.of(i, st.left) < ls.need {
		return
	}
	bound := s.boundL3s(depth+st.left, st.good+ls.good.of(i, st.left), st.free+ls.frees.of(i, st.left), st.barred+ls.barred.of(i, st.left))
	order := bound.compare(s.search.key)
	if order > 0 || order == 0 && s.search.hopeless(&ls.pools[depth], &ls.forced.cpus, ls.items[i].low) {
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
	s.chooseL3s(i+1, with)
	ls.chosen = ls.chosen[:depth]
	s.chooseL3s(i+1, st)
}

// tryL3s finds the best answer within a pool of CPUs and remembers it if it is the best of all.
func (s *Scratch) tryL3s(pool *mask, st *l3State) {
	if st.cap < s.l3s.need {
		return
	}
	if !s.eligible.fast {
		s.table.try(pool)
		return
	}
	ls, p := &s.l3s, &s.p
	terms := s.eligible.terms(ls.need, &st.tally)
	terms.first += ls.forced.terms.first
	left := 0
	if len(s.eligible.m.l3s) > 0 {
		left = st.free - p.n
	}
	socket := ls.socket
	if ls.byL3 {
		s.search.budget -= len(ls.forced.l3s) + len(ls.chosen)
		socket = s.eligible.touchedSockets(s.nodes.chosen) - p.n
		for _, l3 := range ls.forced.l3s {
			socket += s.eligible.touch(s.eligible.m.l3s[l3].socket)
		}
		for _, i := range ls.chosen {
			socket += s.eligible.touch(s.eligible.m.l3s[ls.items[i].l3].socket)
		}
	}
	k := key{ls.set, p.strategy.restTerms(len(ls.forced.l3s)+len(ls.chosen), terms, left, ls.numa, socket)}
	if order := k.compare(s.search.key); order <= 0 {
		s.search.budget -= workPick
		if p.kind.wide > 2 {
			s.search.budget -= workPick * p.n / 8
		}
		cpus := s.picker.pick(pool, &st.tally, ls.need)
		cpus.or(&ls.forced.cpus)
		s.search.keep(k, cpus)
	}
}
