package alloc

// sum prepares the sums over the nodes from each position of the order on.
func (ns *nodeSearch) sum(count int) {
	e, p, t := ns.e, ns.e.p, &ns.rest
	t.caps.reset(1)
	t.good.reset(1)
	t.preferred.reset(1)
	t.frees.reset(p.sign())
	t.l3Frees.reset(p.sign())
	for k, o := range ns.order {
		t.caps.append(ns.tallies[k].cap)
		t.good.append(ns.tallies[k].good)
		t.frees.append(e.freeNodes[o.node])
		t.l3Frees.append(e.l3Free(o.node))
		if p.picky && !p.prefer.has(o.node) {
			t.preferred.append(0)
		} else {
			t.preferred.append(ns.tallies[k].cap)
		}
	}
	t.caps.build(count)
	t.good.build(count)
	t.frees.build(count)
	t.l3Frees.build(count)
	t.preferred.build(count)
	t.amounts = growKeep(t.amounts, len(p.amounts))
	for a := range p.amounts {
		sum, free := &t.amounts[a], p.amounts[a].Free
		sum.reset(1)
		for _, o := range ns.order {
			if o.node < len(free) {
				sum.append(int(free[o.node]))
			} else {
				sum.append(0)
			}
		}
		sum.build(count)
	}
}

// l3Free bounds the free CPUs of the L3 domains that an answer touches in a node that it uses. For LeastAllocated it
// is the upper bound, the sum of all domains; otherwise it is the lower bound, the fullest domain.
func (e *eligible) l3Free(node int) int {
	least, sum := none, 0
	for c := e.m.nodes[node].lo; c < e.m.nodes[node].hi; c++ {
		if e.cells[c].cap == 0 {
			continue
		}
		free := 0
		if l3 := e.m.cells[c].l3; l3 != none && (e.p.strategy == LeastAllocated || e.m.l3s[l3].node == node) {
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
func (ns *nodeSearch) promising(i int, st nodeState) bool {
	e, p, t, left, against := ns.e, ns.e.p, &ns.rest, st.left, ns.against()
	if against.hi == noAnswer {
		return true
	}
	nodes, off, no := len(ns.chosen)+left, p.off(st.preferred+t.preferred.of(i, left)), ns.missingBound(i, left)
	if hi := setTerms(nodes, no, off, nearness{}); hi > against.hi {
		return false
	}
	ns.search.budget -= 8 + (len(ns.order)-i)*(len(ns.chosen)+3)/2 + len(e.m.sockets)
	near := e.m.near(ns.chosen, st.distance+ns.distanceBound(i, left))
	sockets, freeSocket := ns.socketBound(i, left)
	near.sockets += sockets
	hi := setTerms(nodes, no, off, near)
	if hi != against.hi {
		return hi < against.hi
	}
	lo := p.strategy.restTerms(ns.fewestL3s, ns.coreBound(st.good+t.good.of(i, left)),
		ns.freeL3Bound(st.l3Free+t.l3Frees.of(i, left)), p.left(st.free+t.frees.of(i, left), e.home), freeSocket)
	if lo != against.lo {
		return lo < against.lo
	}
	return !ns.listing && !ns.search.hopeless(&ns.pools[len(ns.chosen)], &mask{}, ns.order[i].low)
}

// against returns the key that a set of nodes has to reach.
func (ns *nodeSearch) against() key {
	switch {
	case !ns.listing:
		return ns.search.key
	case len(ns.listed) < mostListed:
		return key{noAnswer, noAnswer}
	default:
		return ns.listed[mostListed-1].bound
	}
}

// Each bound below is valid for every answer in a set of nodes. Its argument is the most that the nodes of the set can
// have or, for free CPUs with MostAllocated, the least.

// missingBound: FarDevices and Unheld >= the numbers of amounts that the chosen nodes do not have, even together with
// the best nodes from position i on. left is how many nodes are still to be chosen.
func (ns *nodeSearch) missingBound(i, left int) (m missing) {
	for a, most := range ns.e.p.amounts {
		most.Want -= int64(ns.rest.amounts[a].of(i, left))
		if !most.heldBy(ns.chosen) {
			m.add(&most)
		}
	}
	return m
}

// coreBound: the core terms >= the terms of n CPUs out of this many good CPUs and all other cores.
func (ns *nodeSearch) coreBound(good int) coreTerms {
	t := ns.all
	t.good = good
	return ns.e.terms(ns.e.p.n, &t)
}

// freeL3Bound is p.left for FreeL3. For LeastAllocated it is freeMost if there are CPUs in no node, which may be in any
// L3 domain. They may also be in any socket, which socketBound ignores: no answer reaches this FreeL3, so the later
// terms do not matter.
func (ns *nodeSearch) freeL3Bound(free int) int {
	if ns.e.p.strategy == LeastAllocated && ns.e.home > 0 {
		return freeMost
	}
	return ns.e.p.left(free, ns.ranks.outside.cap)
}

// socketBound: Sockets >= the touched sockets + more, the fewest additional sockets for the nodes that are still to be
// chosen from position i on; left is their number. FreeSocket >= the free CPUs of all these sockets - n, if the
// additional sockets are the fullest. For LeastAllocated, FreeSocket <= the same with one additional socket for each of
// these nodes.
func (ns *nodeSearch) socketBound(i, left int) (more, free int) {
	e, m := ns.e, ns.e.m
	touched, free := e.touchedSockets(ns.chosen)
	room := 0
	ns.perSocket = resize(ns.perSocket, len(m.sockets))
	for _, o := range ns.order[i:] {
		if n := &m.nodes[o.node]; n.inSocket&^touched == 0 {
			room++
		} else {
			ns.perSocket[n.socket]++
		}
	}
	ns.sorted = ns.sorted[:0]
	for _, n := range ns.perSocket {
		if n > 0 {
			ns.sorted = insert(ns.sorted, n, mostNodes)
		}
	}
	more = fewestOf(ns.sorted, left-room)
	outside := m.socketCPUs[len(m.sockets)-1].in(&e.cpus)
	switch {
	case e.p.strategy != LeastAllocated:
		free += ns.freeOf(more)
	case !m.nodesInSockets:
		return more, freeMost
	default:
		free += ns.freeOf(left)
	}
	return more, e.p.left(free, outside)
}

// freeOf returns the sum of the free CPUs of this many sockets of perSocket: the fullest, or the emptiest for
// LeastAllocated.
func (ns *nodeSearch) freeOf(sockets int) int {
	sign := ns.e.p.sign()
	ns.sorted = ns.sorted[:0]
	for socket, n := range ns.perSocket {
		if n > 0 {
			ns.sorted = insert(ns.sorted, sign*ns.e.freeSockets[socket], sockets)
		}
	}
	return sign * total(ns.sorted)
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
func (ns *nodeSearch) distanceBound(i, left int) int {
	ns.sorted = ns.sorted[:0]
	for _, o := range ns.order[i:] {
		ns.sorted = insert(ns.sorted, -ns.e.m.distanceTo(o.node, ns.chosen), left)
	}
	return left*(left-1)/2*ns.nearest - total(ns.sorted)
}
