package alloc

// key is a vector packed so that keys compare as numbers: less is better.
type key struct{ hi, lo uint64 }

// The fields of a key. hi has what the set of NUMA nodes decides: their number,
// amounts that they do not hold, CPUs off the preferred ones, sockets, dies, distance. lo has what the choice within
// the set does: L3 domains, the two core terms, the three terms of free CPUs. A
// machine has at most 1,024 of anything that is counted, and a core that is
// broken has two threads; what stays free is less than all CPUs. A machine has
// at most 64 nodes, and so fewer than 2^11 pairs, each up to farthest.
const (
	heldBits     = 3
	heldMost     = 1<<heldBits - 1
	offBits      = 11
	socketBits   = 7
	dieBits      = 7
	distanceBits = 23
	coreBits     = 11
	brokenBits   = 10
	freeBits     = 10
	freeMost     = 1<<freeBits - 1
	// l3Shift and coreShift are where the L3 domains and the core terms begin.
	coreShift = 3 * freeBits
	l3Shift   = coreShift + brokenBits + coreBits
)

// noAnswer in both words comes after every key of an answer.
const noAnswer = 1<<64 - 1

func (k key) compare(o key) int {
	switch {
	case k == o:
		return 0
	case k.hi < o.hi || k.hi == o.hi && k.lo < o.lo:
		return -1
	}
	return 1
}

// nearness is how near the nodes of a set are to each other.
type nearness struct{ sockets, dies, distance int }

// setTerms packs what the set of nodes decides.
func setTerms(nodes, unheld, off int, n nearness) uint64 {
	first := uint64(nodes)<<heldBits | uint64(unheld)
	return (((first<<offBits|uint64(off))<<socketBits|uint64(n.sockets))<<dieBits|uint64(n.dies))<<distanceBits | uint64(n.distance)
}

// restTerms packs what the choice within the set decides.
func (s Strategy) restTerms(l3s int, c coreTerms, freeL3, freeNUMA, freeSocket int) uint64 {
	if s == LeastAllocated {
		freeL3, freeNUMA, freeSocket = freeMost-freeL3, freeMost-freeNUMA, freeMost-freeSocket
	}
	free := (uint64(freeL3)<<freeBits|uint64(freeNUMA))<<freeBits | uint64(freeSocket)
	return fewestRest(l3s) | (uint64(c.first)<<brokenBits|uint64(c.second))<<coreShift | free
}

// fewestRest is no more than restTerms of anything in so many L3 domains.
func fewestRest(l3s int) uint64 { return uint64(l3s) << l3Shift }

// l3s and cores are the way back.
func (k key) l3s() int { return int(k.lo >> l3Shift) }

func (k key) cores() coreTerms {
	return coreTerms{int(k.lo >> (coreShift + brokenBits) & (1<<coreBits - 1)), int(k.lo >> coreShift & (1<<brokenBits - 1))}
}

// coreTerms are Split and Broken, or for SpreadByPCPUs the CPUs that are not
// the only ones of their core.
type coreTerms struct{ first, second int }

// keyOf packs a vector.
func (p *problem) keyOf(v *Vector) key {
	c := coreTerms{v.Split, v.Broken}
	if p.bind == SpreadByPCPUs {
		c = coreTerms{first: p.n - v.Cores}
	}
	return key{
		setTerms(v.NUMANodes, v.Unheld, v.OffPreferred, nearness{v.Sockets, v.Dies, v.Distance}),
		p.strategy.restTerms(v.L3s, c, v.FreeL3, v.FreeNUMA, v.FreeSocket),
	}
}
