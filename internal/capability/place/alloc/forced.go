package alloc

// forced is what every answer within a set of nodes has: all eligible CPUs of the preferred nodes, if these are not
// enough. The zero value is nothing.
type forced struct {
	cpus mask
	// first is the first core term of these CPUs.
	first int
	// l3s are the L3 domains of the forced CPUs; free is the number of free CPUs in l3s, eligible or not.
	l3s  []int
	free int
}

// mandatory is the slot of a domain that has forced CPUs: it is no item, because every answer touches it.
const mandatory = -1

// force adds all CPUs that a cell can contribute.
func (ls *l3Search) force(c int) {
	e, at, t := ls.e, &ls.e.m.cells[c], &ls.e.cells[c]
	f, cpus := &ls.forced, &e.cpus
	if e.p.one {
		cpus = &e.first
	}
	for _, c := range at.cpus {
		f.cpus[c.word] |= c.bits & cpus[c.word]
	}
	f.first += t.parts
	if e.p.bind == SpreadByPCPUs {
		f.first += t.cap - t.cores
	}
	if at.l3 != none && ls.slots[at.l3] == 0 {
		ls.slots[at.l3] = mandatory
		f.l3s = append(f.l3s, at.l3)
		f.free += e.freeL3s[at.l3]
	}
}
