package alloc

// nodeSums adds up what is left of the order from each position on.
func (s *Scratch) nodeSums(count int) {
	ns := &s.nodes
	ns.caps.reset(false)
	ns.good.reset(false)
	ns.preferred.reset(false)
	ns.frees.reset(s.p.strategy == MostAllocated)
	ns.l3Frees.reset(s.p.strategy == MostAllocated)
	for k, i := range ns.order {
		ns.caps.append(ns.tallies[k].cap)
		ns.good.append(ns.tallies[k].good)
		ns.frees.append(s.freeNodes[i])
		ns.l3Frees.append(s.l3Free(i))
		ns.preferred.append(s.preferredCap(k))
	}
	ns.caps.build(count)
	ns.good.build(count)
	ns.frees.build(count)
	ns.l3Frees.build(count)
	ns.preferred.build(count)
	ns.sumAmounts(s.p.amounts, count)
}

// sumAmounts adds up what the rest of the order has of each amount.
func (ns *nodeSearch) sumAmounts(amounts []Amount, count int) {
	ns.amounts = growKeep(ns.amounts, len(amounts))
	for a := range amounts {
		sum, free := &ns.amounts[a], amounts[a].Free
		sum.reset(false)
		for _, i := range ns.order {
			if i < len(free) {
				sum.append(int(free[i]))
			} else {
				sum.append(0)
			}
		}
		sum.build(count)
	}
}

// unheldBound: Unheld >= the amounts that the chosen nodes do not have together with
// the best left others from position i on.
func (ns *nodeSearch) unheldBound(amounts []Amount, i, left int) int {
	count := 0
	for a := range amounts {
		most := amounts[a]
		most.Want -= int64(ns.amounts[a].of(i, left))
		if !most.heldBy(ns.chosen) {
			count++
		}
	}
	return count
}

// l3Free bounds the free CPUs of the L3 domains in a node that an answer which
// touches the node touches: at least the fullest, at most all of them.
func (s *Scratch) l3Free(node int) int {
	least, sum := none, 0
	for c := s.m.nodes[node].lo; c < s.m.nodes[node].hi; c++ {
		l3 := s.m.cells[c].l3
		if s.eligible.cells[c].cap == 0 {
			continue
		}
		free := 0
		if l3 != none && s.m.l3s[l3].node == node {
			free = s.freeL3s[l3]
		} else if l3 != none && s.p.strategy == LeastAllocated {
			free = s.freeL3s[l3]
		}
		sum += free
		if least == none || free < least {
			least = free
		}
	}
	if s.p.strategy == LeastAllocated {
		return sum
	}
	return least
}

// preferredCap returns what a node of the order can contribute, if it is a
// preferred one.
func (s *Scratch) preferredCap(k int) int {
	if s.p.picky && !s.p.prefer.has(s.nodes.order[k]) {
		return 0
	}
	return s.nodes.tallies[k].cap
}

// nodeBounds finds what holds for every set of nodes: the L3 domains that the
// greatest ones of all suffice for, and the least distance of a pair.
func (s *Scratch) nodeBounds() {
	m, ns := s.m, &s.nodes
	s.capL3s = resize(s.capL3s, len(m.l3s))
	s.goodL3s = resize(s.goodL3s, len(m.l3s))
	ns.outside, ns.outsideGood = 0, 0
	for i := range m.homeless {
		s.addCapL3(i)
	}
	ns.nearest = farthest
	for k, i := range ns.order {
		for c := m.nodes[i].lo; c < m.nodes[i].hi; c++ {
			s.addCapL3(c)
		}
		for _, j := range ns.order[:k] {
			ns.nearest = min(ns.nearest, m.distance[i][j])
		}
	}
	s.sorted = s.sorted[:0]
	for _, n := range s.capL3s {
		s.sorted = insert(s.sorted, n, len(m.l3s))
	}
	ns.fewestL3s = fewestOf(s.sorted, s.p.n-ns.outside)
}

// addCapL3 adds what a cell can contribute to its L3 domain, or to outside.
func (s *Scratch) addCapL3(c int) {
	t, l3 := &s.eligible.cells[c], s.m.cells[c].l3
	if l3 == none {
		s.nodes.outside += t.cap
		s.nodes.outsideGood += t.good
		return
	}
	s.capL3s[l3] += t.cap
	s.goodL3s[l3] += t.good
}

// fewestOf returns how many of the values, greatest first, add up to n.
func fewestOf(sorted []int, n int) int {
	count := 0
	for n > 0 && count < len(sorted) {
		n -= sorted[count]
		count++
	}
	return count
}

// promising reports whether a partial set of nodes can still lead to something
// better than the best.
func (s *Scratch) promising(i int, st nodeState) bool {
	ns, left, against := &s.nodes, st.left, s.against()
	if against.hi == noAnswer {
		return true
	}
	off, unheld := s.offBound(st.preferred+ns.preferred.of(i, left)), ns.unheldBound(s.p.amounts, i, left)
	if hi := setTerms(len(ns.chosen)+left, unheld, off, nearness{}); hi > against.hi {
		return false
	}
	s.budget -= 8 + (len(ns.order)-i)*(len(ns.chosen)+3)/2 + len(s.m.sockets)
	sockets, freeSocket := s.socketBound(i, left)
	hi := setTerms(len(ns.chosen)+left, unheld, off, nearness{sockets, s.m.diesOf(ns.chosen), st.distance + s.distanceBound(i, left)})
	if hi != against.hi {
		return hi < against.hi
	}
	lo := s.p.strategy.restTerms(ns.fewestL3s, s.coreBound(st.good+ns.good.of(i, left)),
		s.freeL3Bound(st.l3Free+ns.l3Frees.of(i, left)), s.freeNUMABound(st.free+ns.frees.of(i, left)), freeSocket)
	if lo != against.lo {
		return lo < against.lo
	}
	return !ns.listing && !s.hopeless(&ns.pools[len(ns.chosen)], &mask{}, ns.low[i])
}

// against is the key that a set of nodes has to reach.
func (s *Scratch) against() key {
	switch ns := &s.nodes; {
	case !ns.listing:
		return s.best.key
	case len(ns.listed) < mostListed:
		return key{noAnswer, noAnswer}
	default:
		return ns.listed[mostListed-1].bound
	}
}

// Each bound below holds for every answer in a set of nodes, given the most (or,
// of free CPUs with MostAllocated, the least) that the nodes of the set can have.

// offBound: OffPreferred >= n - what the preferred nodes can contribute.
func (s *Scratch) offBound(preferred int) int {
	if !s.p.picky {
		return 0
	}
	return max(0, s.p.n-preferred)
}

// coreBound: the core terms >= those of n CPUs of so many good ones and of all
// other cores that there are.
func (s *Scratch) coreBound(good int) coreTerms {
	all := &s.nodes.all
	return s.terms(s.p.n, &tally{good: good, ones: all.ones, parts: all.parts, shares: all.shares})
}

// freeNUMABound: FreeNUMA >= free - n, as no more than n of the free CPUs are
// taken; for LeastAllocated FreeNUMA <= free - n + the CPUs that are in no node.
func (s *Scratch) freeNUMABound(free int) int {
	return min(max(0, free-s.p.n+s.slack(s.eligible.home)), freeMost)
}

// freeL3Bound: the same for FreeL3. For LeastAllocated it hopes for all where
// there are CPUs in no node, which may lie in any domain. They may lie in any
// socket, too, which socketBound leaves out: no answer has as good a FreeL3, so
// that the terms after it do not matter then.
func (s *Scratch) freeL3Bound(free int) int {
	free = max(0, free-s.p.n+s.slack(s.nodes.outside))
	if free > freeMost || s.p.strategy == LeastAllocated && s.eligible.home > 0 {
		return freeMost
	}
	return free
}

// slack is how much the CPUs outside of all domains of a sort can add to what
// stays free in the domains: only LeastAllocated hopes for it.
func (s *Scratch) slack(outside int) int {
	if s.p.strategy == LeastAllocated {
		return min(s.p.n, outside)
	}
	return 0
}

// socketBound: Sockets >= those touched already, and as few more as can hold left
// more nodes from position i on. FreeSocket >= what is free in these, of the more
// ones in the fullest, - n. For LeastAllocated: <= the same with a socket of its
// own for each of these nodes.
func (s *Scratch) socketBound(i, left int) (count, free int) {
	ns, p := &s.nodes, &s.p
	count = s.m.socketsOf(ns.chosen)
	sum, room := s.touchedSockets(), 0
	s.perSocket = resize(s.perSocket, len(s.m.sockets))
	for _, k := range ns.order[i:] {
		switch socket := s.m.nodes[k].socket; {
		case !s.m.isSocket(socket) || s.seen.has(socket):
			room++
		default:
			s.perSocket[socket]++
		}
	}
	more := socketsFor(s.perSocket, left-room)
	count += more
	switch {
	case p.strategy == LeastAllocated && !s.m.nodesInSockets:
		return count, freeMost
	case p.strategy == LeastAllocated:
		more = left
	}
	outside := s.m.sockets[len(s.m.sockets)-1].cpus.in(&s.eligible.cpus)
	return count, min(max(0, sum+s.freeOf(more)-p.n+s.slack(outside)), freeMost)
}

// socketsFor returns how many sockets it takes for so many nodes, of which each has
// some.
func socketsFor(perSocket []int, nodes int) int {
	var room [mostNodes]int
	sorted := room[:0]
	for _, n := range perSocket {
		if n > 0 {
			sorted = insert(sorted, n, mostNodes)
		}
	}
	return fewestOf(sorted, nodes)
}

// freeOf returns what the free CPUs of so many sockets with nodes add up to: the
// fullest, or for LeastAllocated the emptiest.
func (s *Scratch) freeOf(sockets int) int {
	sign := -1
	if s.p.strategy == LeastAllocated {
		sign = 1
	}
	s.sorted = s.sorted[:0]
	for socket, n := range s.perSocket {
		if n > 0 {
			s.sorted = insert(s.sorted, sign*s.freeSockets[socket], sockets)
		}
	}
	sum := 0
	for _, n := range s.sorted {
		sum += sign * n
	}
	return sum
}

// touchedSockets adds up the free CPUs of the sockets that chosen nodes are
// wholly inside of.
func (s *Scratch) touchedSockets() int {
	s.seen = mask{}
	sum := 0
	for _, i := range s.nodes.chosen {
		sum += s.touch(s.m.nodes[i].socket)
	}
	return sum
}

// touch returns the free CPUs of a socket the first time.
func (s *Scratch) touch(socket int) int {
	if socket == none || s.seen.has(socket) {
		return 0
	}
	s.seen.add(socket)
	return s.freeSockets[socket]
}

// distanceBound: the rest of the set, left nodes from position i on, adds at
// least what the nearest of them have to those chosen, and for each pair among
// them the least distance that there is.
func (s *Scratch) distanceBound(i, left int) int {
	ns := &s.nodes
	s.sorted = s.sorted[:0]
	for _, k := range ns.order[i:] {
		s.sorted = insert(s.sorted, -s.distanceTo(k, ns.chosen), left)
	}
	sum := left * (left - 1) / 2 * ns.nearest
	for _, d := range s.sorted {
		sum -= d
	}
	return sum
}
