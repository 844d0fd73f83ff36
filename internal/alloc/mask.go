package alloc

import (
	"math/bits"

	"github.com/berth-project/berth/internal/cpuset"
)

const (
	maskWords = cpuset.Max / wordBits
	wordBits  = 64
)

// mask is a set of CPUs, or of indices, that is changed in place.
type mask [maskWords]uint64

func (m *mask) has(i int) bool { return m[uint(i)/wordBits]>>(uint(i)%wordBits)&1 != 0 }

func (m *mask) add(i int) { m[uint(i)/wordBits] |= 1 << (uint(i) % wordBits) }

func (m *mask) remove(i int) { m[uint(i)/wordBits] &^= 1 << (uint(i) % wordBits) }

func (m *mask) or(o *mask) {
	for i := range m {
		m[i] |= o[i]
	}
}

func (m *mask) and(o *mask) {
	for i := range m {
		m[i] &= o[i]
	}
}

func (m *mask) andNot(o *mask) {
	for i := range m {
		m[i] &^= o[i]
	}
}

func (m *mask) intersects(o *mask) bool {
	for i := range m {
		if m[i]&o[i] != 0 {
			return true
		}
	}
	return false
}

func (m *mask) isSubsetOf(o *mask) bool {
	for i := range m {
		if m[i]&^o[i] != 0 {
			return false
		}
	}
	return true
}

func (m *mask) size() int {
	n := 0
	for _, w := range m {
		n += bits.OnesCount64(w)
	}
	return n
}

// sizeIn returns the size of the intersection.
func (m *mask) sizeIn(o *mask) int {
	n := 0
	for i := range m {
		n += bits.OnesCount64(m[i] & o[i])
	}
	return n
}

// next returns the lowest member from i on, none if there is none.
func (m *mask) next(i int) int {
	for w := i / wordBits; w < maskWords; w++ {
		word := m[w]
		if w == i/wordBits {
			word &= ^uint64(0) << (uint(i) % wordBits)
		}
		if word != 0 {
			return w*wordBits + bits.TrailingZeros64(word)
		}
	}
	return none
}

// greatest returns the highest member, none of an empty mask.
func (m *mask) greatest() int {
	for w := maskWords - 1; w >= 0; w-- {
		if m[w] != 0 {
			return w*wordBits + bits.Len64(m[w]) - 1
		}
	}
	return none
}

// keep drops all but the n lowest members.
func (m *mask) keep(n int) {
	for i, w := range m {
		m[i] = lowest(w, n)
		n -= bits.OnesCount64(m[i])
	}
}

// lowest returns the n lowest bits that are set.
func lowest(w uint64, n int) uint64 {
	for drop := bits.OnesCount64(w) - max(n, 0); drop > 0; drop-- {
		w &^= 1 << (bits.Len64(w) - 1)
	}
	return w
}

// before reports whether m comes before o: it has the lowest member in which
// the two differ.
func (m *mask) before(o *mask) bool {
	for i := range m {
		if diff := m[i] ^ o[i]; diff != 0 {
			return m[i]&diff&-diff != 0
		}
	}
	return false
}

func (m *mask) set() cpuset.Set { return cpuset.OfWords(*m) }
