package alloc

import (
	"math/bits"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// best is the best answer so far.
type best struct {
	key  key
	cpus mask
	// may holds all CPUs that an answer with this key can have. spare is the most CPUs that such an answer has on
	// cores that are not wholly free.
	may   mask
	spare int
}

// keep remembers an answer if it is better than the best so far.
func (s *Scratch) keep(k key, cpus mask) {
	if order := k.compare(s.best.key); order > 0 || order == 0 && !cpus.before(&s.best.cpus) {
		return
	}
	s.best.cpus = cpus
	if k != s.best.key {
		s.best.key = k
		s.mayHold(k.cores())
	}
}

// mayHold determines the CPUs that an answer as good as the best can have.
func (s *Scratch) mayHold(c coreTerms) {
	e, p, b := &s.eligible, &s.p, &s.best
	b.may, b.spare = e.cpus, cpuset.Max
	switch {
	case p.picky || !s.eligible.fast:
	case p.bind == SpreadByPCPUs:
		if c.first == 0 {
			b.may = e.first
		}
	case c.first == 0 || c.second > 0:
		b.spare = 0
	default:
		b.spare = c.first * max(1, p.kind.wide-1)
	}
}

// hopeless reports whether every answer with the key of the best comes after the best. These answers have the forced
// CPUs, CPUs of pool and otherwise only CPUs from low on. The check assumes the lowest list: all these CPUs.
func (s *Scratch) hopeless(pool, forced *mask, low int) bool {
	b, spare := &s.best, s.best.spare
	for w := 0; w <= low/wordBits; w++ {
		in := b.may[w] & pool[w]
		if part := in & s.eligible.part[w]; part != 0 && spare < cpuset.Max {
			kept := lowestBits(part, spare)
			in = in&^part | kept
			spare -= bits.OnesCount64(kept)
		}
		diff := (in | forced[w]) ^ b.cpus[w]
		if w == low/wordBits {
			diff &= 1<<(uint(low)%wordBits) - 1
		}
		if diff != 0 {
			return b.cpus[w]&diff&-diff != 0
		}
	}
	return false
}
