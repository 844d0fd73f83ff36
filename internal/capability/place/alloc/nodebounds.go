package alloc

// nodeSums prepares the sums over the nodes from each position of the order on.
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
		ns.frees.append(s.eligible.freeNodes[i])
		ns.l3Frees.append(s.eligible.l3Free(i))
		ns.preferred.append(s.preferredCap(k))
	}
	ns.caps.build(count)
	ns.good.build(count)
	ns.frees.build(count)
	ns.l3Frees.build(count)
	ns.preferred.build(count)
	ns.sumAmounts(s.p.amounts, count)
}

// sumAmounts prepares the sums of each amount over the nodes from each position of the order on.
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

// unheldBound: Unheld >= the number of amounts that the chosen nodes do not have, even together with the best nodes
// from position i on. left is how many nodes are still to be chosen.
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

// l3Free bounds the free CPUs of the L3 domains that an answer touches in a node that it uses. For LeastAllocated it
// is the upper bound, the sum of all domains; otherwise it is the lower bound, the fullest domain.
func (e *eligible) l3Free(node int) int {
	least, sum := none, 0
	for c := e.m.nodes[node].lo; c < e.m.nodes[node].hi; c++ {
		l3 := e.m.cells[c].l3
		if e.cells[c].cap == 0 {
			continue
		}
		free := 0
		if l3 != none && e.m.l3s[l3].node == node {
			free = e.freeL3s[l3]
		} else if l3 != none && e.p.strategy == LeastAllocated {
			free = e.freeL3s[l3]
		}
		sum += free
		if least == none || free < least {
			least = free
		}
	}
	if e.p.strategy == LeastAllocated {
		return sum
	}
	return least
}

// preferredCap returns how many CPUs a node of the order can contribute, or 0 if it is not preferred.
func (s *Scratch) preferredCap(k int) int {
	if s.p.picky && !s.p.prefer.has(s.nodes.order[k]) {
		return 0
	}
	return s.nodes.tallies[k].cap
}

// nodeBounds computes bounds for every set of nodes: the fewest L3 domains, if the greatest of all are used, and the
// least distance of a pair.
func (s *Scratch) nodeBounds() {
	m, ns := s.eligible.m, &s.nodes
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

// addCapL3 adds the contribution of a cell to its L3 domain, or to outside.
func (s *Scratch) addCapL3(c int) {
	t, l3 := &s.eligible.cells[c], s.eligible.m.cells[c].l3
	if l3 == none {
		s.nodes.outside += t.cap
		s.nodes.outsideGood += t.good
		return
	}
	s.capL3s[l3] += t.cap
	s.goodL3s[l3] += t.good
}

// fewestOf returns how many of the values, greatest first, are needed to reach n.
func fewestOf(sorted []int, n int) int {
	count := 0
	for n > 0 && count < len(sorted) {
		n -= sorted[count]
		count++
	}
	return count
}

// promising reports whether a partial set of nodes can still lead to an answer better than the best.
func (s *Scratch) promising(i int, st nodeState) bool {
	ns, left, against := &s.nodes, st.left, s.against()
	if against.hi == noAnswer {
		return true
	}
	off, unheld := s.p.off(st.preferred+ns.preferred.of(i, left)), ns.unheldBound(s.p.amounts, i, left)
	if hi := setTerms(len(ns.chosen)+left, unheld, off, nearness{}); hi > against.hi {
		return false
	}
	s.search.budget -= 8 + (len(ns.order)-i)*(len(ns.chosen)+3)/2 + len(s.eligible.m.sockets)
	near := s.eligible.m.near(ns.chosen, st.distance+s.distanceBound(i, left))
	more, freeSocket := s.socketBound(i, left)
	near.sockets += more
	hi := setTerms(len(ns.chosen)+left, unheld, off, near)
	if hi != against.hi {
		return hi < against.hi
	}
	lo := s.p.strategy.restTerms(ns.fewestL3s, s.coreBound(st.good+ns.good.of(i, left)),
		s.freeL3Bound(st.l3Free+ns.l3Frees.of(i, left)), s.p.left(st.free+ns.frees.of(i, left), s.eligible.home), freeSocket)
	if lo != against.lo {
		return lo < against.lo
	}
	return !ns.listing && !s.search.hopeless(&ns.pools[len(ns.chosen)], &mask{}, ns.low[i])
}

// against returns the key that a set of nodes has to reach.
func (s *Scratch) against() key {
	switch ns := &s.nodes; {
	case !ns.listing:
		return s.search.key
	case len(ns.listed) < mostListed:
		return key{noAnswer, noAnswer}
	default:
		return ns.listed[mostListed-1].bound
	}
}

// Each bound below is valid for every answer in a set of nodes. Its argument is the most that the nodes of the set can
// have or, for free CPUs with MostAllocated, the least.

// coreBound: the core terms >= the terms of n CPUs out of this many good CPUs and all other cores.
func (s *Scratch) coreBound(good int) coreTerms {
	all := &s.nodes.all
	return s.eligible.terms(s.p.n, &tally{good: good, ones: all.ones, parts: all.parts, shares: all.shares})
}

// freeL3Bound is p.left for FreeL3. For LeastAllocated it is freeMost if there are CPUs in no node, which may be in any
// L3 domain. They may also be in any socket, which socketBound ignores: no answer reaches this FreeL3, so the
// later terms do not matter.
func (s *Scratch) freeL3Bound(free int) int {
	if s.p.strategy == LeastAllocated && s.eligible.home > 0 {
		return freeMost
	}
	return s.p.left(free, s.nodes.outside)
}

// socketBound: Sockets >= the touched sockets + more, the fewest additional sockets for the nodes that are still to be
// chosen from position i on; left is their number. FreeSocket >= the free CPUs of all these sockets - n, if the additional
// sockets are the fullest. For LeastAllocated, FreeSocket <= the same with one additional socket for each of these
// nodes.
func (s *Scratch) socketBound(i, left int) (more, free int) {
	ns, p := &s.nodes, &s.p
	touched, sum := s.eligible.touchedSockets(ns.chosen)
	room := 0
	s.perSocket = resize(s.perSocket, len(s.eligible.m.sockets))
	for _, k := range ns.order[i:] {
		if n := &s.eligible.m.nodes[k]; n.inSocket&^touched == 0 {
			room++
		} else {
			s.perSocket[n.socket]++
		}
	}
	more = socketsFor(s.perSocket, left-room)
	count := more
	switch {
	case p.strategy == LeastAllocated && !s.eligible.m.nodesInSockets:
		return more, freeMost
	case p.strategy == LeastAllocated:
		count = left
	}
	outside := s.eligible.m.sockets[len(s.eligible.m.sockets)-1].cpus.in(&s.eligible.cpus)
	return more, p.left(sum+s.freeOf(count), outside)
}

// socketsFor returns the least number of sockets that have this many nodes; perSocket has the nodes of each socket.
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

// freeOf returns the sum of the free CPUs of this many sockets with nodes: the fullest sockets, or the emptiest for
// LeastAllocated.
func (s *Scratch) freeOf(sockets int) int {
	sign := -1
	if s.p.strategy == LeastAllocated {
		sign = 1
	}
	s.sorted = s.sorted[:0]
	for socket, n := range s.perSocket {
		if n > 0 {
			s.sorted = insert(s.sorted, sign*s.eligible.freeSockets[socket], sockets)
		}
	}
	sum := 0
	for _, n := range s.sorted {
		sum += sign * n
	}
	return sum
}

// touchedSockets returns the sockets that nodes are wholly inside, as in node.inSocket, and the sum of their free CPUs.
func (e *eligible) touchedSockets(nodes []int) (in nodeSet, free int) {
	for _, i := range nodes {
		if n := &e.m.nodes[i]; n.inSocket&^in != 0 {
			in |= n.inSocket
			free += e.freeSockets[n.socket]
		}
	}
	return in, free
}

// distanceBound returns the least distance that is added by the nodes still to be chosen from position i on; left is
// their number. It consists of the distances of the nearest of these nodes to the chosen nodes, and of the least
// distance for each pair among them.
func (s *Scratch) distanceBound(i, left int) int {
	ns := &s.nodes
	s.sorted = s.sorted[:0]
	for _, k := range ns.order[i:] {
		s.sorted = insert(s.sorted, -s.eligible.m.distanceTo(k, ns.chosen), left)
	}
	sum := left * (left - 1) / 2 * ns.nearest
	for _, d := range s.sorted {
		sum -= d
	}
	return sum
}
