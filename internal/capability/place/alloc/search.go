package alloc

import (
	"math/bits"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// search is what all searches of one decision share: the best answer so far, and the remaining work.
type search struct {
	e *eligible
	// key and cpus are the best answer so far.
	key  key
	cpus mask
	// may holds all CPUs that an answer with this key can have. spare is the most CPUs that such an answer has on
	// cores that are not wholly free.
	may   mask
	spare int
	// budget is the remaining work. inexact is true if a search ended because the budget was spent.
	budget  int
	inexact bool
}

// budget is the work that one decision may do in all its searches together. A unit is about 5 ns, so a decision ends
// after about a millisecond on any machine. Each step is charged by the loops that it runs. Machines of up to eight
// NUMA nodes with four L3 domains each stay far below the budget. Many nodes or L3 domains that are fragmented in
// different ways can have too many sets to search.
const budget = 200_000

// reset forgets the best answer.
func (s *search) reset() { s.key, s.cpus = key{noAnswer, noAnswer}, mask{} }

// spend subtracts work from the budget and reports whether the search may continue. A search with an empty budget
// continues until it has found an answer.
func (s *search) spend(work int) bool {
	s.budget -= work
	if s.budget >= 0 || s.key.hi == noAnswer {
		return true
	}
	s.inexact = true
	return false
}

// keep remembers an answer if it is better than the best so far.
func (s *search) keep(k key, cpus mask) {
	if order := k.compare(s.key); order > 0 || order == 0 && !cpus.before(&s.cpus) {
		return
	}
	s.cpus = cpus
	if k != s.key {
		s.key = k
		s.mayHold(k.cores())
	}
}

// mayHold determines the CPUs that an answer as good as the best can have.
func (s *search) mayHold(c coreTerms) {
	e, p := s.e, s.e.p
	s.may, s.spare = e.cpus, cpuset.Max
	switch {
	case p.picky || !e.fast:
	case p.bind == SpreadByPCPUs:
		if c.first == 0 {
			s.may = e.first
		}
	case c.first == 0 || c.second > 0:
		s.spare = 0
	default:
		s.spare = c.first * max(1, p.kind.wide-1)
	}
}

// hopeless reports whether every answer with the key of the best comes after the best. These answers have the forced
// CPUs, CPUs of pool and otherwise only CPUs from low on. The check assumes the lowest list: all these CPUs.
func (s *search) hopeless(pool, forced *mask, low int) bool {
	spare := s.spare
	for w := 0; w <= low/wordBits; w++ {
		in := s.may[w] & pool[w]
		if part := in & s.e.part[w]; part != 0 && spare < cpuset.Max {
			kept := lowestBits(part, spare)
			in = in&^part | kept
			spare -= bits.OnesCount64(kept)
		}
		diff := (in | forced[w]) ^ s.cpus[w]
		if w == low/wordBits {
			diff &= 1<<(uint(low)%wordBits) - 1
		}
		if diff != 0 {
			return s.cpus[w]&diff&-diff != 0
		}
	}
	return false
}
