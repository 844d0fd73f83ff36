package alloc

// shares counts cores that are not wholly free by how many CPUs they can
// contribute, 1 to widest-1. Only machines of more than two threads a core ask
// for it: with two, such a core contributes one.
type shares [2]uint64

const (
	// widest is the most threads of a core that are counted this way.
	widest    = 8
	shareBits = 16
	perWord   = 64 / shareBits
)

func (h *shares) add(o *shares) {
	h[0] += o[0]
	h[1] += o[1]
}

// one is a single core with so many CPUs.
func (h *shares) one(cpus int) *uint64 { return &h[(cpus-1)/perWord] }

func (h *shares) put(cpus int)  { *h.one(cpus) += 1 << ((cpus - 1) % perWord * shareBits) }
func (h *shares) take(cpus int) { *h.one(cpus) -= 1 << ((cpus - 1) % perWord * shareBits) }

// count returns how many cores have so many CPUs.
func (h *shares) count(cpus int) int {
	return int(*h.one(cpus) >> ((cpus - 1) % perWord * shareBits) & (1<<shareBits - 1))
}

// fewest returns how many cores n CPUs take at least, all if they are too few.
func (h *shares) fewest(n int) int {
	cores := 0
	for cpus := widest - 1; cpus > 0 && n > 0; cpus-- {
		more := min(h.count(cpus), (n+cpus-1)/cpus)
		cores += more
		n -= more * cpus
	}
	return cores
}

// atLeast says whether one core has n CPUs.
func (h *shares) atLeast(n int) bool {
	for cpus := n; cpus < widest; cpus++ {
		if h.count(cpus) > 0 {
			return true
		}
	}
	return false
}

// most returns the most CPUs of exactly so many cores, none if there are fewer.
func (h *shares) most(cores int) int {
	sum := 0
	for cpus := widest - 1; cpus > 0; cpus-- {
		n := min(h.count(cpus), cores)
		sum += n * cpus
		cores -= n
	}
	if cores > 0 {
		return none
	}
	return sum
}

// wideTerms are the core terms of the best n CPUs out of cores of more than two
// threads, all of as many. Cores that are not wholly free come first for what
// is no whole core; one that is wholly free is broken only where none of them
// has enough.
func (s *Scratch) wideTerms(n int, t *tally) coreTerms {
	if missing := n - t.good; missing > 0 {
		return coreTerms{first: t.shares.fewest(missing)}
	}
	switch rest := n % s.p.kind.wide; {
	case rest == 0:
		return coreTerms{}
	case t.shares.atLeast(rest):
		return coreTerms{first: 1}
	default:
		return coreTerms{1, 1}
	}
}

// pickWide returns the lowest answer that has these terms.
func (s *Scratch) pickWide(pool *mask, t *tally, n int) mask {
	e, wide := &s.eligible, s.p.kind.wide
	lead, part := e.lead, e.part
	lead.and(pool)
	part.and(pool)
	rest := max(n-t.good, n%wide)
	if n > t.good || rest == 0 || t.shares.atLeast(rest) {
		lead.keep((n - rest) / wide)
		cpus := s.m.withSiblings(&lead)
		s.pickParts(&cpus, &part, rest, t.shares)
		return cpus
	}
	// Whichever core is broken, its lowest CPUs stay; best is the one whose
	// others are the highest.
	lead.keep(n/wide + 1)
	cpus := s.m.withSiblings(&lead)
	var broken []int16
	for cpu := lead.next(0); cpu != none; cpu = lead.next(cpu + 1) {
		if c := s.m.cores[s.m.coreOf[cpu]].cpus; broken == nil || c[rest] > broken[rest] {
			broken = c
		}
	}
	for _, cpu := range broken[rest:] {
		cpus.remove(int(cpu))
	}
	return cpus
}

// pickParts adds the n lowest CPUs of as few cores as have them, none of which
// is wholly free. CPU by CPU, it takes what leaves a way to go on: later are the
// cores not come to yet, open what is left of those begun.
func (s *Scratch) pickParts(to, part *mask, n int, later shares) {
	cores, open := later.fewest(n), 0
	for cpu := part.next(0); cpu != none && n > 0; cpu = part.next(cpu + 1) {
		before, after := s.neighbours(part, cpu)
		switch {
		case before == none:
			later.take(after + 1)
			if more := later.most(cores - 1); cores > 0 && more != none && n-1 >= cores-1 && n-1 <= open+after+more {
				cores--
				n--
				open += after
				to.add(cpu)
			}
		case !to.has(before):
		case n > cores:
			n--
			open--
			to.add(cpu)
		default:
			open -= after + 1
		}
	}
}

// neighbours returns the CPU of the same core before one that is in the mask, none
// if it is the first, and how many come after it.
func (s *Scratch) neighbours(in *mask, cpu int) (before, after int) {
	before = none
	for _, other := range s.m.cores[s.m.coreOf[cpu]].cpus {
		switch o := int(other); {
		case !in.has(o):
		case o < cpu:
			before = o
		case o > cpu:
			after++
		}
	}
	return before, after
}
