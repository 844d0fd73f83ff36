package alloc

import (
	"math/bits"

	"github.com/berth-project/berth/internal/value/cpuset"
)

const (
	maskWords = cpuset.Max / wordBits
	wordBits  = 64
)

// mask is a set of CPUs, or of indices, that is modified in place.
type mask [maskWords]uint64

func (m *mask) has(i int) bool { return m[uint(i)/wordBits]>>(uint(i)%wordBits)&1 != 0 }

func (m *mask) add(i int) { m[uint(i)/wordBits] |= 1 << (uint(i) % wordBits) }

func (m *mask) addAll(cpus []int16) {
	for _, cpu := range cpus {
		m.add(int(cpu))
	}
}

// count returns how many of the CPUs are members.
func (m *mask) count(cpus []int16) int {
	n := 0
	for _, cpu := range cpus {
		if m.has(int(cpu)) {
			n++
		}
	}
	return n
}

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

// within reports whether all members are in o.
func (m *mask) within(o *mask) bool {
	for i, w := range m {
		if w&^o[i] != 0 {
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

// word returns the members of a word's range increased by n, as members of that word.
func (m *mask) word(i, n int) (word uint64) {
	i += n / wordBits
	shift := uint(n) % wordBits
	if i < maskWords {
		word = m[i] >> shift
	}
	if shift > 0 && i+1 < maskWords {
		word |= m[i+1] << (wordBits - shift)
	}
	return word
}

// addWord adds the members of a word, increased by n. Members beyond the mask are lost.
func (m *mask) addWord(i, n int, word uint64) {
	i += n / wordBits
	shift := uint(n) % wordBits
	if i < maskWords {
		m[i] |= word << shift
	}
	if shift > 0 && i+1 < maskWords {
		m[i+1] |= word >> (wordBits - shift)
	}
}

// nodeSet is a set of NUMA nodes, by index or by position in an order.
type nodeSet uint64

// allNodes holds every possible node.
const allNodes = ^nodeSet(0)

func (n nodeSet) size() int { return bits.OnesCount64(uint64(n)) }

func (n nodeSet) has(i int) bool { return n>>uint(i)&1 != 0 }

func (n *nodeSet) add(i int) { *n |= 1 << uint(i) }

func (n *nodeSet) remove(i int) { *n &^= 1 << uint(i) }

// sparse is a mask without its empty words: most domains occupy few words.
type sparse []chunk

type chunk struct {
	word int
	bits uint64
}

func (m *mask) sparse() (s sparse) {
	for i, w := range m {
		if w != 0 {
			s = append(s, chunk{i, w})
		}
	}
	return s
}

func sparseAll(masks []mask) []sparse {
	all := make([]sparse, len(masks))
	for i := range masks {
		all[i] = masks[i].sparse()
	}
	return all
}

// counts returns how many members of m each of the domains has. It reuses the memory of a list.
func counts(list []int, domains []sparse, m *mask) []int {
	list = grow(list, len(domains))
	for i := range domains {
		list[i] = domains[i].in(m)
	}
	return list
}

// touched returns how many of the domains have members of m, and how many other free members these have.
func touched(domains []sparse, free []int, m *mask) (count, left int) {
	for i, d := range domains {
		if in := d.in(m); in > 0 {
			count++
			left += free[i] - in
		}
	}
	return count, left
}

// in returns the size of the intersection.
func (s sparse) in(m *mask) int {
	n := 0
	for _, c := range s {
		n += bits.OnesCount64(c.bits & m[c.word])
	}
	return n
}

// meets reports whether there is a common member.
func (s sparse) meets(m *mask) bool {
	for _, c := range s {
		if c.bits&m[c.word] != 0 {
			return true
		}
	}
	return false
}

// lowest returns the lowest common member, or none.
func (s sparse) lowest(m *mask) int {
	for _, c := range s {
		if w := c.bits & m[c.word]; w != 0 {
			return c.word*wordBits + bits.TrailingZeros64(w)
		}
	}
	return none
}

// addTo adds the members to m.
func (s sparse) addTo(m *mask) {
	for _, c := range s {
		m[c.word] |= c.bits
	}
}

// next returns the lowest member that is at least i, or none.
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

// greatest returns the highest member, or none for an empty mask.
func (m *mask) greatest() int {
	for w := maskWords - 1; w >= 0; w-- {
		if m[w] != 0 {
			return w*wordBits + bits.Len64(m[w]) - 1
		}
	}
	return none
}

// keep removes all members except the n lowest.
func (m *mask) keep(n int) {
	for i, w := range m {
		m[i] = lowestBits(w, n)
		n -= bits.OnesCount64(m[i])
	}
}

// lowestBits returns the n lowest set bits of w.
func lowestBits(w uint64, n int) uint64 {
	for drop := bits.OnesCount64(w) - max(n, 0); drop > 0; drop-- {
		w &^= 1 << (bits.Len64(w) - 1)
	}
	return w
}

// before reports whether m comes before o: m has the lowest member in which the two differ.
func (m *mask) before(o *mask) bool {
	for i := range m {
		if diff := m[i] ^ o[i]; diff != 0 {
			return m[i]&diff&-diff != 0
		}
	}
	return false
}

func (m *mask) set() cpuset.Set { return cpuset.OfWords(*m) }
