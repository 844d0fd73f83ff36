package alloc

// tally counts what a group of cores can contribute to an answer.
type tally struct {
	// cap is the number of CPUs.
	cap int
	// good is the number of CPUs without a cost in the core terms: the CPUs of wholly free cores or, for
	// SpreadByPCPUs, one CPU of each core.
	good  int
	cores int
	// ones counts the wholly free cores of one thread, parts the cores that are not wholly free. SpreadByPCPUs does
	// not use them.
	ones, parts int
	// shares counts the parts by size, if cores have more than two threads.
	shares shares
}

func (t *tally) add(o *tally) {
	t.cap += o.cap
	t.good += o.good
	t.ones += o.ones
	t.parts += o.parts
	t.cores += o.cores
	t.shares.add(&o.shares)
}

// eligible is the result of the survey: the CPUs that may be given out.
type eligible struct {
	// cpus holds all eligible CPUs. lead holds the lowest CPU of each wholly free core, part the CPUs of the other
	// cores, first the lowest CPU of each core.
	cpus, lead, part, first mask
	ones                    mask // wholly free cores of one thread
	// mixed is true if the wholly free cores have different numbers of threads.
	mixed bool
	// nodes has the number of CPUs that each node could contribute, home the number of CPUs in no node.
	nodes []int
	home  int
	// cells has a tally for each cell, and low its lowest CPU.
	cells []tally
	low   []int
}

// survey finds the eligible CPUs and counts how many each node can contribute, which is enough for a refusal. It
// examines the cores only if they determine eligibility; otherwise surveyCells does.
func (s *Scratch) survey() {
	m, p, e := s.m, &s.p, &s.eligible
	e.cpus = s.reach()
	if p.byCore() {
		s.surveyCores()
	}
	counted := &e.cpus
	if p.one {
		counted = &e.first
	}
	e.nodes = grow(e.nodes, len(m.nodes))
	for i := range m.nodes {
		e.nodes[i] = m.nodes[i].cpus.in(counted)
	}
	e.home = 0
	if p.home && m.homeless > 0 {
		nowhere := m.nowhere
		nowhere.and(counted)
		e.home = nowhere.size()
	}
	s.fast = p.kind.regular && s.countable()
}

// countable reports whether counts of cores determine the core terms.
func (s *Scratch) countable() bool {
	switch p := &s.p; {
	case p.bind == SpreadByPCPUs:
		return true
	case !p.whole:
		return p.kind.wide <= 2 || p.kind.uniform
	case !s.eligible.mixed:
		return true
	default:
		// The CPUs of the preferred nodes may not add up to whole cores.
		return p.kind.wide <= 2 && !p.picky
	}
}

// surveyCells counts how many CPUs each cell can contribute.
func (s *Scratch) surveyCells() {
	m, e := s.m, &s.eligible
	if !s.p.byCore() {
		s.surveyCores()
	}
	e.cells = grow(e.cells, len(m.cells))
	e.low = grow(e.low, len(m.cells))
	for i := range m.cells {
		at := &m.cells[i]
		t := tally{cores: at.cpus.in(&e.first)}
		if e.low[i] = none; t.cores > 0 {
			s.surveyCell(&t, at)
			e.low[i] = at.cpus.lowest(&e.cpus)
		}
		e.cells[i] = t
	}
}

// surveyCell completes the tally of a cell.
func (s *Scratch) surveyCell(t *tally, at *cell) {
	e := &s.eligible
	t.cap, t.good = t.cores, t.cores
	if !s.p.one {
		t.cap = at.cpus.in(&e.cpus)
	}
	if s.p.bind == SpreadByPCPUs {
		return
	}
	t.good = t.cap - at.cpus.in(&e.part)
	t.ones = at.cpus.in(&e.ones)
	t.parts = t.cores - at.cpus.in(&e.lead)
	if s.p.kind.wide > 2 && t.parts > 0 && s.fast {
		s.surveyShares(t, at)
	}
}

// surveyShares counts the cores of a cell that are not wholly free.
func (s *Scratch) surveyShares(t *tally, at *cell) {
	for _, c := range s.m.cores[at.lo:at.hi] {
		cpus := 0
		for _, cpu := range c.cpus {
			if s.eligible.part.has(int(cpu)) {
				cpus++
			}
		}
		if cpus > 0 {
			t.shares.put(cpus)
		}
	}
}

// reach returns the free CPUs in the domains that the answer may use.
func (s *Scratch) reach() mask {
	free := s.p.free
	if s.p.only != none {
		free = mask{}
		s.m.l3s[s.p.only].cpus.addTo(&free)
		free.and(&s.p.free)
	}
	if !s.p.home {
		free.andNot(&s.m.nowhere)
	}
	return free
}

// surveyCores sorts the eligible CPUs by how much of their core is free.
func (s *Scratch) surveyCores() {
	m, p, e := s.m, &s.p, &s.eligible
	free := e.cpus
	e.cpus, e.lead, e.first, e.ones, e.part, e.mixed = mask{}, mask{}, mask{}, mask{}, mask{}, false
	size := 0
	for i := range m.patterns {
		pattern := &m.patterns[i]
		threads := len(pattern.offsets)
		if p.whole && !fills(threads, p.kind.threads) {
			continue
		}
		if e.addWhole(pattern, &free) {
			e.mixed = e.mixed || size != 0 && size != threads
			size = threads
		}
		if !p.clean {
			e.addFirst(pattern, &free)
		}
	}
	if p.clean {
		e.first = e.lead
		return
	}
	e.part = free
	e.part.andNot(&e.cpus)
	e.cpus = free
}

// addWhole adds the cores of a pattern that are wholly free, and reports whether there are any.
func (e *eligible) addWhole(p *pattern, free *mask) bool {
	whole := p.leads
	for _, off := range p.offsets {
		in := free.down(off)
		whole.and(&in)
	}
	if whole == (mask{}) {
		return false
	}
	e.lead.or(&whole)
	if len(p.offsets) == 1 {
		e.ones.or(&whole)
	}
	for _, off := range p.offsets {
		in := whole.up(off)
		e.cpus.or(&in)
	}
	return true
}

// addFirst adds the lowest free CPU of each core of a pattern.
func (e *eligible) addFirst(p *pattern, free *mask) {
	left := p.leads
	for _, off := range p.offsets {
		in := free.down(off)
		in.and(&left)
		left.andNot(&in)
		in = in.up(off)
		e.first.or(&in)
	}
}

// fills reports whether whole cores of n threads, combined with other cores for which fills is true, can add up to
// every multiple of threads within their total. A sum that fits then needs no search. A core with, for example, 3 of 4
// threads online does not qualify.
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
		s.freeNodes[i] = m.nodes[i].cpus.in(&s.p.free)
	}
	for i := range m.l3s {
		s.freeL3s[i] = m.l3s[i].cpus.in(&s.p.free)
	}
	for i := range m.sockets[:len(m.sockets)-1] {
		s.freeSockets[i] = m.sockets[i].cpus.in(&s.p.free)
	}
}
