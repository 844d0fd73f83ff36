package alloc

// shares counts the cores that are not wholly free, by how many CPUs they can contribute: 1 to widest-1. It is used
// only on machines of more than two threads per core: with two, such a core contributes one CPU.
type shares [2]uint64

const (
	// widest is the greatest number of threads of a core that is counted this way.
	widest    = 8
	shareBits = 16
	perWord   = 64 / shareBits
)

func (h *shares) add(o *shares) {
	h[0] += o[0]
	h[1] += o[1]
}

// one returns the word that has the counter of cores with this many CPUs.
func (h *shares) one(cpus int) *uint64 { return &h[(cpus-1)/perWord] }

func (h *shares) put(cpus int)  { *h.one(cpus) += 1 << ((cpus - 1) % perWord * shareBits) }
func (h *shares) take(cpus int) { *h.one(cpus) -= 1 << ((cpus - 1) % perWord * shareBits) }

// count returns how many cores have this many CPUs.
func (h *shares) count(cpus int) int {
	return int(*h.one(cpus) >> ((cpus - 1) % perWord * shareBits) & (1<<shareBits - 1))
}

// fewest returns the least number of cores that provide n CPUs, or the number of all cores if these are too few.
func (h *shares) fewest(n int) int {
	cores := 0
	for cpus := widest - 1; cpus > 0 && n > 0; cpus-- {
		more := min(h.count(cpus), (n+cpus-1)/cpus)
		cores += more
		n -= more * cpus
	}
	return cores
}

// atLeast reports whether one core has n CPUs or more.
func (h *shares) atLeast(n int) bool {
	for cpus := n; cpus < widest; cpus++ {
		if h.count(cpus) > 0 {
			return true
		}
	}
	return false
}

// most returns the most CPUs that exactly this many cores have, or none if there are fewer cores.
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

// wideTerms returns the core terms of the best n CPUs, where all cores have the same number of threads, more than two.
// A remainder below a whole core comes from a core that is not wholly free. A wholly free core is broken only if no
// other core has enough CPUs.
func (e *eligible) wideTerms(n int, t *tally) coreTerms {
	if missing := n - t.good; missing > 0 {
		return coreTerms{first: t.shares.fewest(missing)}
	}
	switch rest := n % e.p.kind.wide; {
	case rest == 0:
		return coreTerms{}
	case t.shares.atLeast(rest):
		return coreTerms{first: 1}
	default:
		return coreTerms{1, 1}
	}
}

// wide returns the lowest answer that has the terms of wideTerms.
func (k *picker) wide(pool *mask, t *tally, n int) mask {
	m, wide, lead, part := k.e.m, k.e.p.kind.wide, k.e.lead, k.e.part
	lead.and(pool)
	part.and(pool)
	rest := max(n-t.good, n%wide)
	if n > t.good || rest == 0 || t.shares.atLeast(rest) {
		lead.keep((n - rest) / wide)
		cpus := m.withSiblings(&lead)
		k.parts(&cpus, &part, rest, t.shares)
		return cpus
	}
	// The broken core contributes its lowest CPUs. Breaking the core whose dropped CPUs are the highest gives the
	// lowest answer.
	lead.keep(n/wide + 1)
	cpus := m.withSiblings(&lead)
	var broken []int16
	for cpu := lead.next(0); cpu != none; cpu = lead.next(cpu + 1) {
		if threads := m.threads(cpu); broken == nil || threads[rest] > broken[rest] {
			broken = threads
		}
	}
	for _, cpu := range broken[rest:] {
		cpus.remove(int(cpu))
	}
	return cpus
}

// parts adds the n lowest CPUs of cores that are not wholly free, on as few cores as possible. It goes through the CPUs
// in order and adds a CPU if the remaining CPUs can still complete the answer. later counts the cores not reached yet;
// open counts the remaining CPUs of cores already used.
func (k *picker) parts(to, part *mask, n int, later shares) {
	cores, open := later.fewest(n), 0
	for cpu := part.next(0); cpu != none && n > 0; cpu = part.next(cpu + 1) {
		before, after := k.e.m.neighbours(part, cpu)
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

// neighbours returns the previous CPU of the same core in the mask (none for the first), and the number of later CPUs
// of that core in the mask.
func (m *Machine) neighbours(in *mask, cpu int) (before, after int) {
	before = none
	for _, other := range m.threads(cpu) {
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
