package alloc

// forced is what every answer within a set of nodes has: all of the preferred
// nodes, where these are not enough. The zero value is nothing.
type forced struct {
	cpus mask
	// terms are the core terms that this costs.
	terms coreTerms
	// l3s are the L3 domains that it touches, free the free CPUs of these.
	l3s  []int
	free int
}

// mandatory is the slot of a domain that forced CPUs are in: it is no item, as
// there is nothing to choose.
const mandatory = -1

// force takes all that a cell can contribute.
func (s *Scratch) force(c int) {
	ls, at, t := &s.l3s, &s.m.cells[c], &s.eligible.cells[c]
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
		f.free += s.freeL3s[at.l3]
	}
}
