package alloc

// key is a vector packed so that keys compare as numbers: a smaller key is better.
type key struct{ hi, lo uint64 }

// The fields of a key. hi has the terms that the set of NUMA nodes determines: their number, the devices and the
// memory that they do not have, CPUs off the preferred nodes, sockets, dies, distance. lo has the terms that the choice
// within the set determines: L3 domains, the two core terms, the three terms of free CPUs.
//
// Each count is at most 1,024. A broken core has at least two threads, and fewer CPUs stay free than the machine has.
// A machine has at most 64 nodes, and therefore fewer than 2^11 pairs, each at most farthest apart.
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
	// l3Shift and coreShift are the positions of the L3 domains and the core terms.
	coreShift = 3 * freeBits
	l3Shift   = coreShift + brokenBits + coreBits
)

// noAnswer in both words is greater than every key of an answer.
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

// nearness describes how near the nodes of a set are to each other.
type nearness struct{ sockets, dies, distance int }

// missing counts amounts that a set of nodes does not have: kinds of devices, and memory.
type missing struct{ devices, memory int }

func (m *missing) add(a *Amount) {
	if a.Device {
		m.devices++
	} else {
		m.memory++
	}
}

// setTerms packs the terms that the set of nodes determines.
func setTerms(nodes int, no missing, off int, n nearness) uint64 {
	first := (uint64(nodes)<<heldBits|uint64(no.devices))<<heldBits | uint64(no.memory)
	return (((first<<offBits|uint64(off))<<socketBits|uint64(n.sockets))<<dieBits|uint64(n.dies))<<distanceBits | uint64(n.distance)
}

// setTerms packs the terms of a set of nodes; distance is the sum of the distances of its pairs.
func (e *eligible) setTerms(nodes []int, off, distance int) uint64 {
	return setTerms(len(nodes), e.p.missing(nodes), off, e.m.near(nodes, distance))
}

// restTerms packs the terms that the choice within the set determines.
func (s Strategy) restTerms(l3s int, c coreTerms, freeL3, freeNUMA, freeSocket int) uint64 {
	if s == LeastAllocated {
		freeL3, freeNUMA, freeSocket = freeMost-freeL3, freeMost-freeNUMA, freeMost-freeSocket
	}
	free := (uint64(freeL3)<<freeBits|uint64(freeNUMA))<<freeBits | uint64(freeSocket)
	return fewestRest(l3s) | (uint64(c.first)<<brokenBits|uint64(c.second))<<coreShift | free
}

// fewestRest is a lower bound of restTerms for answers in this many L3 domains.
func fewestRest(l3s int) uint64 { return uint64(l3s) << l3Shift }

// l3s and cores unpack the key.
func (k key) l3s() int { return int(k.lo >> l3Shift) }

func (k key) cores() coreTerms {
	return coreTerms{int(k.lo >> (coreShift + brokenBits) & (1<<coreBits - 1)), int(k.lo >> coreShift & (1<<brokenBits - 1))}
}

// coreTerms are Split and Broken or, for SpreadByPCPUs, the number of CPUs beyond the first of each core.
type coreTerms struct{ first, second int }

// off is the least number of CPUs of an answer off the preferred nodes, if these can contribute this many.
func (p *problem) off(preferred int) int {
	if !p.picky {
		return 0
	}
	return max(0, p.n-preferred)
}

// left bounds the CPUs that stay free in the touched domains of a kind, which have free CPUs at least. It is free - n,
// because the answer uses at most n of them. For LeastAllocated, free is the most, and left too: CPUs of the answer
// that are outside all domains of the kind leave more free.
func (p *problem) left(free, outside int) int {
	if p.strategy == LeastAllocated {
		free += min(p.n, outside)
	}
	return min(max(0, free-p.n), freeMost)
}

// keyOf packs a vector.
func (p *problem) keyOf(v *Vector) key {
	c := coreTerms{v.Split, v.Broken}
	if p.bind == SpreadByPCPUs {
		c = coreTerms{first: p.n - v.Cores}
	}
	return key{
		setTerms(v.NUMANodes, missing{v.FarDevices, v.Unheld}, v.OffPreferred, nearness{v.Sockets, v.Dies, v.Distance}),
		p.strategy.restTerms(v.L3s, c, v.FreeL3, v.FreeNUMA, v.FreeSocket),
	}
}
