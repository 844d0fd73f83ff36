package grant

import (
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Part is what one container has. With empty Mems, its memory is left alone.
type Part placement.Part

// After returns the part with First set to the CPUs that the container had first; old is its part until now.
func (p Part) After(old Part) Part {
	if old.First.IsEmpty() {
		old.First = old.CPUs
	}
	if p.First = old.First.Intersect(p.CPUs); p.First == p.CPUs {
		p.First = cpuset.Set{}
	}
	return p
}

// Beside returns the part with the memory nodes of old added: the pages stay where they are until something moves them.
func (p Part) Beside(old Part) Part {
	if old.Bare() || p.Bare() {
		p.Mems = cpuset.Set{}
		return p
	}
	p.Mems = p.Mems.Union(old.Mems)
	return p
}

// Bare reports whether the NUMA nodes of a part are unknown.
func (p Part) Bare() bool { return p.Mems.IsEmpty() }

// Total is the sum of several parts. The zero value is empty.
type Total struct {
	cpus, mems cpuset.Set
	bare       bool // one part is Bare
}

// Add adds a part.
func (s *Total) Add(p Part) {
	s.cpus, s.mems, s.bare = s.cpus.Union(p.CPUs), s.mems.Union(p.Mems), s.bare || p.Bare()
}

// Part returns the sum, without NUMA nodes if some are unknown.
func (s *Total) Part() Part {
	if s.bare {
		return Part{CPUs: s.cpus}
	}
	return Part{CPUs: s.cpus, Mems: s.mems}
}
