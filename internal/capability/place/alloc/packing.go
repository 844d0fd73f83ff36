package alloc

import "slices"

// packing is the search for L3 domains in which no container is split.
type packing struct {
	search *search
	wants  []Want
	order  []int
	// domains holds the indices of the domains, the fullest first. room has what each domain can still contribute.
	domains, room []int
	// share is how many CPUs each node still has to contribute, if even.
	share [mostNodes]int
	even  bool
	// at is the domain of each container.
	at []int
}

// whole divides the pool so that each container is in one L3 domain, and reports whether that is possible. The largest
// container gets the fullest domain that leaves room for the others. DistributeEvenly keeps the number of CPUs that the
// union has in each node.
func (d *division) whole(s *Scratch, r *Request, pool, union mask) bool {
	m, k := s.eligible.m, &d.packing
	s.p.part(len(m.nodes))
	s.p.free = pool
	s.eligible.survey()
	counted := &s.eligible.cpus
	if s.p.one {
		counted = &s.eligible.first
	}
	k.search, k.wants, k.order, k.even = &s.search, r.Wants, d.order, r.Strategy == DistributeEvenly
	k.room, k.at, k.domains = counts(k.room, m.l3CPUs, counted), resize(k.at, len(r.Wants)), k.domains[:0]
	for i, n := range k.room {
		if n > 0 && (!k.even || m.l3s[i].node != none) {
			k.domains = append(k.domains, i)
		}
	}
	slices.SortStableFunc(k.domains, func(a, b int) int { return k.room[a] - k.room[b] })
	for i := range m.nodes {
		k.share[i] = m.nodeCPUs[i].in(&union)
	}
	if !k.find(m, 0) {
		return false
	}
	d.other = resize(d.other, len(r.Wants))
	for _, i := range d.order {
		var in mask
		m.l3CPUs[k.at[i]].addTo(&in)
		in.and(&pool)
		before := in
		if !d.take(s, r.Wants[i].CPUs, &in, &d.other[i]) {
			return false
		}
		before.andNot(&in)
		pool.andNot(&before)
	}
	return true
}

// find finds a domain for each container from position i of the order on.
func (k *packing) find(m *Machine, i int) bool {
	if i == len(k.order) {
		return true
	}
	want := k.order[i]
	n := k.wants[want].CPUs
	for pos, l3 := range k.domains {
		if !k.search.spend(1) {
			return false
		}
		node := m.l3s[l3].node
		if k.room[l3] < n || k.even && k.share[node] < n || k.failed(m, pos) {
			continue
		}
		k.give(l3, node, n)
		if k.at[want] = l3; k.find(m, i+1) {
			return true
		}
		k.give(l3, node, -n)
	}
	return false
}

// failed reports whether an earlier domain has as much room, in the same node if that matters. There the container was
// tried already: the order of equal domains decides nothing, and to try all orders would spend the budget.
func (k *packing) failed(m *Machine, pos int) bool {
	at := k.domains[pos]
	return slices.ContainsFunc(k.domains[:pos], func(earlier int) bool {
		return k.room[earlier] == k.room[at] && (!k.even || m.l3s[earlier].node == m.l3s[at].node)
	})
}

// give gives n CPUs of a domain to a container.
func (k *packing) give(l3, node, n int) {
	k.room[l3] -= n
	if k.even {
		k.share[node] -= n
	}
}
