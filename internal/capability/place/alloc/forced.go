package alloc

// forced is what every answer within a set of nodes has: all eligible CPUs of the preferred nodes, if these are not
// enough. The zero value is nothing.
type forced struct {
	cpus mask
	// terms are the core terms of these CPUs.
	terms coreTerms
	// l3s are the L3 domains of these CPUs; free is the number of free CPUs in these domains.
	l3s  []int
	free int
}

// mandatory is the slot of a domain that has forced CPUs: it is no item, because every answer touches it.
const mandatory = -1

// force adds all CPUs that a cell can contribute.
func (s *Scratch) force(c int) {
	ls, at, t := &s.l3s, &s.eligible.m.cells[c], &s.eligible.cells[c]
	f, cpus := &ls.forced, &s.eligible.cpus
	if s.p.one {
		cpus = &s.eligible.first
	}
	for _, c := range at.cpus {
		f.cpus[c.word] |= c.bits & cpus[c.word]
	}
	f.terms.first += t.parts
	if s.p.bind == SpreadByPCPUs {
		f.terms.first += t.cap - t.cores
	}
	if at.l3 != none && ls.slots[at.l3] == 0 {
		ls.slots[at.l3] = mandatory
		f.l3s = append(f.l3s, at.l3)
		f.free += s.eligible.freeL3s[at.l3]
	}
}
