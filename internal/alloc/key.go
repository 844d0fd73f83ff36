package alloc

// key is a vector packed so that keys compare as numbers: less is better.
type key struct{ hi, lo uint64 }

// The fields of a key, from its first to its last. A machine has at most 1,024
// of anything that is counted, and pairs of nodes at most 2^19 times farthest.
const (
	fieldBits    = 11
	fieldMost    = 1<<fieldBits - 1
	distanceBits = 31
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

// head packs the number of nodes, CPUs off the preferred ones, L3 domains and
// the two core terms.
func head(nodes, off, l3s int, c coreTerms) uint64 {
	return uint64(nodes)<<(4*fieldBits) | uint64(off)<<(3*fieldBits) | uint64(l3s)<<(2*fieldBits) |
		uint64(c.first)<<fieldBits | uint64(c.second)
}

// tail packs the three terms of free CPUs and the distance.
func (s Strategy) tail(l3, numa, socket, distance int) uint64 {
	if s == LeastAllocated {
		l3, numa, socket = fieldMost-l3, fieldMost-numa, fieldMost-socket
	}
	return uint64(l3)<<(2*fieldBits+distanceBits) | uint64(numa)<<(fieldBits+distanceBits) | uint64(socket)<<distanceBits | uint64(distance)
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
		head(v.NUMANodes, v.OffPreferred, v.L3s, c),
		p.strategy.tail(v.FreeL3, v.FreeNUMA, v.FreeSocket, v.Distance),
	}
}
