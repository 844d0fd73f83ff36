package alloc

// tally counts what some cores can contribute to an answer.
type tally struct {
	// cap is the number of CPUs.
	cap int
	// good is the number of CPUs without a cost in the core terms: those of
	// wholly free cores, or for SpreadByPCPUs one of each core.
	good int
	// ones are wholly free cores of one thread, parts those that are not wholly
	// free.
	ones, parts int
	cores       int
}

func (t *tally) add(o *tally) {
	t.cap += o.cap
	t.good += o.good
	t.ones += o.ones
	t.parts += o.parts
	t.cores += o.cores
}

// eligible is what the survey finds: the CPUs that may be given out.
type eligible struct {
	// avail counts those of each core.
	avail []int16
	// cells has a tally for each cell, and the lowest CPU.
	cells []tally
	low   []int
	// nodes has the CPUs that each node could contribute, home those in none.
	nodes []int
	home  int
	// cpus holds all; lead the lowest of each wholly free core, part those of
	// the other cores, first the lowest of each core.
	cpus, lead, part, first mask
	// partly is the most CPUs of a core that is not taken wholly.
	partly int
	// mixed says that the wholly free cores have different numbers of threads.
	mixed   bool
	threads int
}

// survey counts what each core, cell and node can contribute.
func (s *Scratch) survey() {
	m, e := s.m, &s.eligible
	e.avail = resize(e.avail, len(m.cores))
	e.cells = resize(e.cells, len(m.cells))
	e.low = resize(e.low, len(m.cells))
	e.nodes = resize(e.nodes, len(m.nodes))
	e.cpus, e.lead, e.part, e.first = mask{}, mask{}, mask{}, mask{}
	e.home, e.partly, e.mixed, e.threads = 0, 0, false, 0
	for i := range m.cells {
		at := &m.cells[i]
		e.low[i] = none
		if !s.p.usable(at) {
			continue
		}
		for c := at.lo; c < at.hi; c++ {
			s.surveyCore(i, c)
		}
		if at.node == none {
			e.home += e.cells[i].cap
		} else {
			e.nodes[at.node] += e.cells[i].cap
		}
	}
	p := &s.p
	mixed := p.whole && e.mixed
	s.fast = p.kind.regular && (p.bind == SpreadByPCPUs || p.whole && !mixed || p.kind.wide <= 2 && !(mixed && p.picky))
}

// surveyCore counts one core.
func (s *Scratch) surveyCore(cell, c int) {
	e, p, cpus := &s.eligible, &s.p, s.m.cores[c].cpus
	avail, low := 0, none
	for i := len(cpus) - 1; i >= 0; i-- {
		if cpu := int(cpus[i]); p.free.has(cpu) {
			avail, low = avail+1, cpu
		}
	}
	all := avail == len(cpus)
	if avail == 0 || p.clean && !all || p.whole && !fills(avail, p.kind.threads) {
		return
	}
	e.avail[c] = int16(avail)
	e.first.add(low)
	if e.low[cell] == none || low < e.low[cell] {
		e.low[cell] = low
	}
	t := tally{cap: avail, cores: 1}
	if p.one {
		t.cap = 1
	}
	if all {
		e.lead.add(low)
		e.mixed = e.mixed || e.threads != 0 && e.threads != avail
		e.threads = avail
		t.good = avail
		if avail == 1 {
			t.ones = 1
		}
		e.partly = max(e.partly, avail-1)
	} else {
		t.parts = 1
		e.partly = max(e.partly, avail)
	}
	if p.bind == SpreadByPCPUs {
		t.good = 1
	}
	for _, cpu := range cpus {
		if p.free.has(int(cpu)) {
			e.cpus.add(int(cpu))
			if !all {
				e.part.add(int(cpu))
			}
		}
	}
	e.cells[cell].add(&t)
}

// fills reports whether whole cores of n threads can, together with any others
// of which the same is true, fill up every multiple of threads that they have
// the CPUs for: then there is no search for a sum that fits. A core with, say,
// 3 of 4 threads online cannot.
func fills(n, threads int) bool {
	return n == threads || threads%n == 0 && n&(n-1) == 0
}

// frees counts the free CPUs of all domains, eligible or not.
func (s *Scratch) frees() {
	m := s.m
	s.freeNodes = resize(s.freeNodes, len(m.nodes))
	s.freeL3s = resize(s.freeL3s, len(m.l3s))
	s.freeSockets = resize(s.freeSockets, len(m.sockets))
	for i := range m.nodes {
		s.freeNodes[i] = s.p.free.sizeIn(&m.nodes[i].cpus)
	}
	for i := range m.l3s {
		s.freeL3s[i] = s.p.free.sizeIn(&m.l3s[i].cpus)
	}
	for i := range m.sockets[:len(m.sockets)-1] {
		s.freeSockets[i] = s.p.free.sizeIn(&m.sockets[i].cpus)
	}
}
