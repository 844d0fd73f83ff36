package alloc

// even divides the best answer anew among its NUMA nodes, as evenly as these
// allow, where DistributeEvenly asks for it. The nodes stay; whole cores stay
// whole where there are enough.
func (s *Scratch) even() {
	best, p := s.best.cpus, s.p
	nodes, count := s.m.nodesOf(&best)
	all := s.m.cpusOf(nodes)
	if !p.even || count < 2 || !best.within(&all) {
		return
	}
	var shares [mostNodes]int
	level(&shares, s.eligible.nodes, nodes, &p)
	var sum mask
	for i := range s.m.nodes {
		if shares[i] == 0 {
			continue
		}
		here := s.m.cpusOf(1 << i)
		s.p.part(1)
		s.p.n, s.p.free, s.p.clean = shares[i], p.free, p.clean
		s.p.free.and(&here)
		if s.solve().Code != Placed {
			sum = best
			break
		}
		sum.or(&s.best.cpus)
	}
	s.p, s.best.cpus = p, sum
	s.survey()
	s.frees()
}

// level gives the nodes shares of p.n CPUs, core by core to the one that has the
// least so far, of equals the first.
func level(shares *[mostNodes]int, room []int, nodes nodeSet, p *problem) {
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
			return
		default:
			unit = 1 // what is left is parts of cores
		}
	}
}
