package alloc

import (
	"math/bits"

	"github.com/berth-project/berth/internal/cpuset"
)

const (
	maskWords = cpuset.Max / wordBits
	wordBits  = 64
)

// mask is a set of CPUs that is changed in place.
type mask [maskWords]uint64

func (m *mask) has(cpu int) bool { return m[cpu/wordBits]>>(uint(cpu)%wordBits)&1 != 0 }

func (m *mask) add(cpu int) { m[cpu/wordBits] |= 1 << (uint(cpu) % wordBits) }

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

func (m *mask) size() int {
	n := 0
	for _, w := range m {
		n += bits.OnesCount64(w)
	}
	return n
}

// before reports whether m comes before o: it has the lowest CPU in which the
// two differ.
func (m *mask) before(o *mask) bool {
	for i := range m {
		if diff := m[i] ^ o[i]; diff != 0 {
			return m[i]&diff&-diff != 0
		}
	}
	return false
}

func (m *mask) set() cpuset.Set { return cpuset.OfWords(*m) }
