package alloc

// cost is the cost of a part of an answer in the terms that are sums over cores. It is packed so that costs add field
// by field and compare as numbers.
type cost struct{ hi, lo uint64 }

// costBits is the width of a field, wide enough for any sum.
const costBits = 20

func (c cost) plus(o cost) cost { return cost{c.hi + o.hi, c.lo + o.lo} }

func (c cost) compare(o cost) int { return key(c).compare(key(o)) }

// entry is the best set of one size so far.
type entry struct {
	ok   bool
	cost cost
	cpus mask
}

// offer replaces e by from plus cpus if the result costs less, or costs the same and is lower.
func (e *entry) offer(from *entry, c cost, cpus *mask) {
	if !from.ok {
		return
	}
	c = c.plus(from.cost)
	order := -1
	if e.ok {
		order = c.compare(e.cost)
	}
	if order > 0 {
		return
	}
	sum := from.cpus
	sum.or(cpus)
	if order < 0 || sum.before(&e.cpus) {
		*e = entry{true, c, sum}
	}
}

// table finds the best answer within a pool if no formula does. The causes are cores of unequal numbers of threads,
// CPUs outside L3 domains or nodes, and sockets that neither nodes nor L3 domains determine. It is a knapsack over the
// cores that carries the sets themselves. It is exact: the lower of two sets of one size stays the lower after both
// are joined with a third.
type table struct {
	e      *eligible
	search *search
	// low has for each size the best set in the sockets so far, high the best set that touches the current socket.
	low, high []entry
}

// try remembers the best answer within a pool if it is the best of all.
func (t *table) try(pool *mask) {
	e, p := t.e, t.e.p
	t.low = resize(t.low, p.n+1)
	t.high = grow(t.high, p.n+1)
	t.low[0].ok = true
	for socket := range e.m.sockets {
		t.addSocket(socket, pool)
	}
	if found := &t.low[p.n]; found.ok {
		v := e.vector(&found.cpus)
		t.search.keep(p.keyOf(&v), found.cpus)
	}
}

// addSocket adds the cores of one socket.
func (t *table) addSocket(socket int, pool *mask) {
	m := t.e.m
	touched, untouched := cost{lo: uint64(t.e.freeSockets[socket])}, cost{}
	if t.e.p.strategy == LeastAllocated {
		touched, untouched = untouched, touched
	}
	clear(t.high)
	for i := range m.cells {
		if at := &m.cells[i]; at.socket == socket && at.cpus.in(pool) > 0 {
			for c := at.lo; c < at.hi; c++ {
				t.addCore(c, touched)
			}
		}
	}
	for x := range t.low {
		low := t.low[x]
		low.cost = low.cost.plus(untouched)
		low.offer(&t.high[x], cost{}, &mask{})
		t.low[x] = low
	}
}

// workTable is the cost of one size of one core, in units of the budget.
const workTable = 12

// addCore adds a core: its lowest j CPUs, for every possible j.
func (t *table) addCore(c int, touched cost) {
	p, threads := t.e.p, t.e.m.cores[c].cpus
	avail := t.e.cpus.count(threads)
	if avail == 0 {
		return
	}
	first, last := 1, avail
	switch {
	case p.whole:
		first = avail
	case p.one:
		last = 1
	}
	t.search.budget -= workTable * (last - first + 1) * p.n
	for x := p.n; x >= first; x-- {
		var cpus mask
		j := 0
		for _, cpu := range threads {
			if !t.e.cpus.has(int(cpu)) {
				continue
			}
			cpus.add(int(cpu))
			if j++; j < first || j > min(last, x) {
				continue
			}
			k := t.cost(c, avail, j)
			t.high[x].offer(&t.high[x-j], k, &cpus)
			t.high[x].offer(&t.low[x-j], k.plus(touched), &cpus)
		}
	}
}

// cost is the cost of j CPUs of a core that has avail.
func (t *table) cost(c, avail, j int) cost {
	p, m := t.e.p, t.e.m
	at := &m.cells[m.cores[c].cell]
	var k cost
	if !p.prefers(at) {
		k.hi += uint64(j) << (2 * costBits)
	}
	switch threads := len(m.cores[c].cpus); {
	case p.bind == SpreadByPCPUs:
		k.hi += uint64(j - 1)
	case j < threads:
		k.hi += 1 << costBits
		if avail == threads {
			k.hi++
		}
	}
	// A CPU outside a domain leaves one more CPU free in the touched domains.
	if (at.l3 == none) == (p.strategy == MostAllocated) {
		k.lo += uint64(j) << (2 * costBits)
	}
	if (at.node == none) == (p.strategy == MostAllocated) {
		k.lo += uint64(j) << costBits
	}
	if (at.socket == len(m.sockets)-1) == (p.strategy == MostAllocated) {
		k.lo += uint64(j)
	}
	return k
}
