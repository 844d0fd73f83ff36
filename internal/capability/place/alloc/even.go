package alloc

// even divides the best answer again among its NUMA nodes if DistributeEvenly asks for it, as evenly as their free
// CPUs allow. The nodes do not change; whole cores stay whole if there are enough.
func (s *Scratch) even() {
	best, p := s.search.cpus, s.p
	nodes := s.eligible.m.nodesOf(&best)
	all := s.eligible.m.cpusOf(nodes)
	if !p.even || nodes.size() < 2 || !best.within(&all) {
		return
	}
	if !s.share(nodes) {
		s.search.cpus = best
	}
}

// spanNodes returns the nodes of Span.
func (r *Request) spanNodes(m *Machine) (nodes nodeSet) {
	if r.Span.IsEmpty() {
		return 0
	}
	for i := range m.nodes {
		if r.Span.Contains(int(m.nodes[i].id)) {
			nodes.add(i)
		}
	}
	return nodes
}

// spanned returns the nodes of Span, or none if no answer can use CPUs of each.
func (r *Request) spanned(m *Machine, p *problem) nodeSet {
	nodes := r.spanNodes(m)
	if count := nodes.size(); count < 2 || count != r.Span.Size() || r.NUMA == SingleNUMANode || r.Domain != AnyDomain || nodes&^p.across != 0 {
		return 0
	}
	return nodes
}

// share finds the best answer that divides its CPUs among the nodes as evenly as they allow. It reports whether there
// is an answer with CPUs of each node.
func (s *Scratch) share(nodes nodeSet) bool {
	s.eligible.survey()
	p, sum := s.p, mask{}
	var shares [mostNodes]int
	ok := level(&shares, s.eligible.nodes, nodes, &p)
	for i := range s.eligible.m.nodes {
		if !ok || shares[i] == 0 {
			continue
		}
		here := s.eligible.m.cpusOf(1 << i)
		s.p.part(1)
		s.p.n, s.p.free, s.p.clean = shares[i], p.free, p.clean
		s.p.free.and(&here)
		ok = s.solve().Code == Placed
		sum.or(&s.search.cpus)
	}
	s.p, s.search.cpus = p, sum
	s.eligible.survey()
	s.eligible.frees()
	return ok
}

// level divides p.n CPUs among the nodes, core by core: each to the node that has the least so far, or to the first of
// equal nodes. It reports whether the nodes have room, and each gets some.
func level(shares *[mostNodes]int, room []int, nodes nodeSet, p *problem) bool {
	unit := 1
	if p.bind == FullPCPUs {
		unit = max(1, p.kind.threads)
	}
	for n := p.n; n > 0; {
		step, least := min(unit, n), none
		for i := range room {
			if nodes.has(i) && room[i]-shares[i] >= step && (least == none || shares[i] < shares[least]) {
				least = i
			}
		}
		switch {
		case least != none:
			shares[least] += step
			n -= step
		case unit == 1:
			return false
		default:
			unit = 1 // the remaining CPUs are parts of cores
		}
	}
	for i := range room {
		if nodes.has(i) && shares[i] == 0 {
			return false
		}
	}
	return true
}
