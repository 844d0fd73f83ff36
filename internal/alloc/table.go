package alloc

// cost is what a part of an answer costs, in the order of the vector, packed so
// that costs add up field by field and compare as numbers.
type cost struct{ hi, lo uint64 }

const costBits = 20

func (c cost) plus(o cost) cost { return cost{c.hi + o.hi, c.lo + o.lo} }

func (c cost) compare(o cost) int {
	switch {
	case c == o:
		return 0
	case c.hi < o.hi || c.hi == o.hi && c.lo < o.lo:
		return -1
	}
	return 1
}

// entry is the best set of one size so far.
type entry struct {
	ok   bool
	cost cost
	cpus mask
}

// offer replaces e if the set is better: cheaper, or lower at the same cost.
func (e *entry) offer(from *entry, c cost, cpus *mask) {
	if !from.ok {
		return
	}
	total := from.cost.plus(c)
	if e.ok {
		order := total.compare(e.cost)
		if order > 0 {
			return
		}
		if order == 0 {
			sum := from.cpus
			sum.or(cpus)
			if sum.before(&e.cpus) {
				e.cpus = sum
			}
			return
		}
	}
	e.ok, e.cost, e.cpus = true, total, from.cpus
	e.cpus.or(cpus)
}

// table finds the best set within the pool of the chosen nodes and L3 domains:
// a knapsack over the cores, which carries the sets themselves. That is exact,
// since of two sets of one size the lower one stays the lower when both are
// joined with a third.
func (s *Scratch) table(m *Machine, p *problem, in func(*cell) bool) *entry {
	s.low = resize(s.low, p.n+1)
	s.high = resize(s.high, p.n+1)
	s.low[0].ok = true
	for socket := range m.sockets {
		clear(s.high)
		free := m.sockets[socket].cpus
		free.and(&p.free)
		charge := cost{lo: uint64(free.size())}
		untouched := cost{}
		if p.least == LeastAllocated {
			charge, untouched = untouched, charge
		}
		if socket == len(m.sockets)-1 {
			charge, untouched = cost{}, cost{}
		}
		for i := range m.cells {
			if at := &m.cells[i]; at.socket == socket && in(at) {
				for c := at.lo; c < at.hi; c++ {
					s.tableCore(m, p, c, charge)
				}
			}
		}
		for x := range s.low {
			low := s.low[x]
			s.low[x] = entry{}
			s.low[x].offer(&low, untouched, &mask{})
			s.low[x].offer(&s.high[x], cost{}, &mask{})
		}
	}
	return &s.low[p.n]
}

// tableCore adds one core: high holds the sets that touch the core's socket,
// low those that do not yet.
func (s *Scratch) tableCore(m *Machine, p *problem, c int, charge cost) {
	avail := int(s.avail[c])
	if avail == 0 {
		return
	}
	var picks [cpusPerCore + 1]mask
	first := 1
	if p.whole {
		first = avail
	}
	last := avail
	if p.one {
		last = 1
	}
	n := 0
	for _, cpu := range m.cores[c].cpus {
		if p.free.has(int(cpu)) {
			n++
			picks[n] = picks[n-1]
			picks[n].add(int(cpu))
		}
	}
	for x := p.n; x >= first; x-- {
		for j := first; j <= min(last, x); j++ {
			k := m.coreCost(p, c, avail, j)
			s.high[x].offer(&s.high[x-j], k, &picks[j])
			s.high[x].offer(&s.low[x-j], k.plus(charge), &picks[j])
		}
	}
}

// cpusPerCore is the most threads of a core: the whole machine.
const cpusPerCore = 64

// coreCost is the price of j CPUs of a core that has avail.
func (m *Machine) coreCost(p *problem, c, avail, j int) cost {
	at := &m.cells[m.cores[c].cell]
	var k cost
	if p.picky && (at.node == none || !p.prefer.has(at.node)) {
		k.hi += uint64(j) << (2 * costBits)
	}
	threads := len(m.cores[c].cpus)
	switch {
	case p.bind == SpreadByPCPUs:
		k.hi += uint64(j - 1)
	case j < threads:
		k.hi += 1 << costBits
		if avail == threads {
			k.hi++
		}
	}
	if (at.l3 == none) == (p.least == MostAllocated) {
		k.lo += uint64(j) << (2 * costBits)
	}
	if (at.node == none) == (p.least == MostAllocated) {
		k.lo += uint64(j) << costBits
	}
	return k
}
