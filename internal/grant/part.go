package grant

import (
	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/cpuset"
)

// Part is what one container has. Empty mems leave its memory alone.
type Part struct {
	CPUs, Mems cpuset.Set
	// First are the CPUs that it had before a resize to more; empty where these are all.
	First cpuset.Set
}

// PartOf is what a placement says of a container. The form of both lists was checked
// when it was decoded; one that is missing is empty.
func PartOf(c v1alpha1.ContainerPlacement) Part {
	cpus, _ := cpuset.Parse(c.CPUs)
	mems, _ := cpuset.Parse(c.Mems)
	first, _ := cpuset.Parse(c.First)
	return Part{CPUs: cpus, Mems: mems, First: first.Intersect(cpus)}
}

// After returns the part with those CPUs named that the container had first, old being what
// it had until now.
func (p Part) After(old Part) Part {
	if old.First.IsEmpty() {
		old.First = old.CPUs
	}
	if p.First = old.First.Intersect(p.CPUs); p.First == p.CPUs {
		p.First = cpuset.Set{}
	}
	return p
}

// Beside returns the part of a container with the memory nodes that it had too: its pages stay
// where they are until something moves them.
func (p Part) Beside(old Part) Part {
	if old.Bare() || p.Bare() {
		p.Mems = cpuset.Set{}
		return p
	}
	p.Mems = p.Mems.Union(old.Mems)
	return p
}

// Bare says that the NUMA nodes of a part are not known.
func (p Part) Bare() bool { return p.Mems.IsEmpty() }

// Total is what several parts have together. The zero value is that of none.
type Total struct {
	cpus, mems cpuset.Set
	bare       bool // So is one of them.
}

// Add adds one more.
func (s *Total) Add(p Part) {
	s.cpus, s.mems, s.bare = s.cpus.Union(p.CPUs), s.mems.Union(p.Mems), s.bare || p.Bare()
}

// Part returns the sum, without NUMA nodes where not all are known.
func (s *Total) Part() Part {
	if s.bare {
		return Part{CPUs: s.cpus}
	}
	return Part{CPUs: s.cpus, Mems: s.mems}
}
