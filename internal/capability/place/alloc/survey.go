package alloc

import "math/bits"

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

// eligible is the result of the survey of a problem: the CPUs that may be given out, and counts of free CPUs.
type eligible struct {
	m *Machine
	p *problem
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
	// fast: counts of cores determine the core terms.
	fast bool
	// Free CPUs of each domain, eligible or not.
	freeNodes, freeL3s, freeSockets []int
	// sorted is memory of single methods.
	sorted []int
}

// survey finds the eligible CPUs and counts how many each node can contribute, which is enough for a refusal. It
// examines the cores only if they determine eligibility; otherwise surveyCells does.
func (e *eligible) survey() {
	m, p := e.m, e.p
	e.cpus = e.reach()
	if p.byCore() {
		e.surveyCores()
	}
	counted := &e.cpus
	if p.one {
		counted = &e.first
	}
	e.nodes = counts(e.nodes, m.nodeCPUs, counted)
	e.home = 0
	if p.home && m.homeless > 0 {
		nowhere := m.nowhere
		nowhere.and(counted)
		e.home = nowhere.size()
	}
	e.fast = p.kind.regular && e.countable()
}

// countable reports whether counts of cores determine the core terms.
func (e *eligible) countable() bool {
	switch p := e.p; {
	case p.bind == SpreadByPCPUs:
		return true
	case !p.whole:
		return p.kind.wide <= 2 || p.kind.uniform
	case !e.mixed:
		return true
	default:
		// The CPUs of the preferred nodes may not add up to whole cores.
		return p.kind.wide <= 2 && !p.picky
	}
}

// surveyCells counts how many CPUs each cell can contribute.
func (e *eligible) surveyCells() {
	m := e.m
	if !e.p.byCore() {
		e.surveyCores()
	}
	e.cells = grow(e.cells, len(m.cells))
	e.low = grow(e.low, len(m.cells))
	for i := range m.cells {
		at := &m.cells[i]
		e.cells[i], e.low[i] = tally{}, none
		if at.node == none || e.nodes[at.node] > 0 {
			e.surveyCell(&e.cells[i], at)
			e.low[i] = at.cpus.lowest(&e.cpus)
		}
	}
}

// surveyCell counts what a cell can contribute.
func (e *eligible) surveyCell(t *tally, at *cell) {
	lead, part := 0, 0
	for _, c := range at.cpus {
		t.cap += bits.OnesCount64(c.bits & e.cpus[c.word])
		t.cores += bits.OnesCount64(c.bits & e.first[c.word])
		t.ones += bits.OnesCount64(c.bits & e.ones[c.word])
		lead += bits.OnesCount64(c.bits & e.lead[c.word])
		part += bits.OnesCount64(c.bits & e.part[c.word])
	}
	t.good, t.parts = t.cap-part, t.cores-lead
	if e.p.one {
		t.cap = t.cores
	}
	if e.p.bind == SpreadByPCPUs {
		t.good, t.ones, t.parts = t.cores, 0, 0
		return
	}
	if e.p.kind.wide > 2 && t.parts > 0 && e.fast {
		e.surveyShares(t, at)
	}
}

// surveyShares counts the cores of a cell that are not wholly free.
func (e *eligible) surveyShares(t *tally, at *cell) {
	for _, c := range e.m.cores[at.lo:at.hi] {
		if cpus := e.part.count(c.cpus); cpus > 0 {
			t.shares.put(cpus)
		}
	}
}

// reach returns the free CPUs in the domains that the answer may use.
func (e *eligible) reach() mask {
	free := e.p.free
	if e.p.only != none {
		free = mask{}
		e.m.l3CPUs[e.p.only].addTo(&free)
		free.and(&e.p.free)
	}
	if !e.p.home {
		free.andNot(&e.m.nowhere)
	}
	return free
}

// surveyCores sorts the eligible CPUs by how much of their core is free.
func (e *eligible) surveyCores() {
	m, p := e.m, e.p
	free := e.cpus
	e.cpus, e.lead, e.first, e.ones, e.part, e.mixed = mask{}, mask{}, mask{}, mask{}, mask{}, false
	size := 0
	for i := range m.patterns {
		pattern := &m.patterns[i]
		threads := len(pattern.offsets)
		if p.whole && !fills(threads, p.kind.threads) {
			continue
		}
		if e.addCores(pattern, &free) {
			e.mixed = e.mixed || size != 0 && size != threads
			size = threads
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

// addCores adds the cores of a pattern, and reports whether any is wholly free.
func (e *eligible) addCores(p *pattern, free *mask) bool {
	found := false
	for i, leads := range p.leads {
		whole, left := leads, leads
		for k := 0; k < len(p.offsets) && whole|left != 0; k++ {
			in := free.word(i, p.offsets[k])
			whole &= in
			in &= left
			left &^= in
			e.first.addWord(i, p.offsets[k], in)
		}
		if whole == 0 {
			continue
		}
		found = true
		e.lead[i] |= whole
		if len(p.offsets) == 1 {
			e.ones[i] |= whole
		}
		for _, off := range p.offsets {
			e.cpus.addWord(i, off, whole)
		}
	}
	return found
}

// fills reports whether whole cores of n threads, combined with other cores for which fills is true, can add up to
// every multiple of threads within their total. A sum that fits then needs no search. A core with, for example, 3 of 4
// threads online does not qualify.
func fills(n, threads int) bool {
	return n == threads || threads%n == 0 && n&(n-1) == 0
}

// frees counts the free CPUs of all domains, eligible or not.
func (e *eligible) frees() {
	m, free := e.m, &e.p.free
	e.freeNodes = counts(e.freeNodes, m.nodeCPUs, free)
	e.freeL3s, e.freeSockets = resize(e.freeL3s, len(m.l3s)), resize(e.freeSockets, len(m.sockets))
	for i := range m.cells {
		at := &m.cells[i]
		if at.node != none && e.freeNodes[at.node] == 0 {
			continue
		}
		n := at.cpus.in(free)
		e.freeSockets[at.socket] += n
		if at.l3 != none {
			e.freeL3s[at.l3] += n
		}
	}
	e.freeSockets[len(m.sockets)-1] = 0 // no socket
}
