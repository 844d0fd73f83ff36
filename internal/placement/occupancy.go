package placement

import (
	"slices"

	"github.com/berth-project/berth/internal/alloc"
	"github.com/berth-project/berth/internal/cpuset"
)

// Occupancy is what the pods of one node hold. It is a function of the set of
// those pods: the order in which they are added changes nothing, and there is
// no way to take one out, only to add up the others again. The zero value is a
// node without pinned pods. It is not safe for concurrent change.
type Occupancy struct {
	// Taken holds the CPUs that are given out.
	Taken alloc.Taken
	// ExtraMilli is by how much the CPUs given out exceed the requests of their
	// containers, in thousandths: what the sum of requests does not show.
	ExtraMilli int64
	// Unknown is how many more CPUs are promised without anybody knowing which.
	Unknown int
	// Overlaps holds the CPUs that two pods hold, which should not be.
	Overlaps cpuset.Set
	// bounds is sorted by nodes, which are distinct.
	bounds []bound
}

// bound is memory that may come from some NUMA nodes only, and the part of it that
// was requested.
type bound struct {
	nodes          nodeMask
	bytes, request int64
}

// Add adds what one pod holds. m must be the machine that h was made with.
func (o *Occupancy) Add(m *alloc.Machine, h *Held) {
	o.ExtraMilli += h.extra
	o.Unknown += int(h.unknown)
	for _, b := range h.bounds {
		o.bind(b)
	}
	if m == nil || h.holding.CPUs.IsEmpty() {
		return
	}
	o.Overlaps = o.Overlaps.Union(o.Taken.CPUs().Intersect(h.occupied(m)))
	m.Hold(&o.Taken, h.holding)
}

// Equal says whether two nodes with these occupancies, which are else the same,
// answer every pod alike.
func (o *Occupancy) Equal(other *Occupancy) bool {
	return o.Taken == other.Taken && o.ExtraMilli == other.ExtraMilli && o.Unknown == other.Unknown &&
		o.Overlaps == other.Overlaps && slices.Equal(o.bounds, other.bounds)
}

// Clone returns a copy that can be added to without changing o.
func (o *Occupancy) Clone() Occupancy {
	c := *o
	c.bounds = slices.Clone(o.bounds)
	return c
}

func (o *Occupancy) bind(b bound) {
	at, found := slices.BinarySearchFunc(o.bounds, b.nodes, func(e bound, nodes nodeMask) int {
		switch {
		case e.nodes < nodes:
			return -1
		case e.nodes > nodes:
			return 1
		}
		return 0
	})
	if found {
		o.bounds[at].bytes += b.bytes
		o.bounds[at].request += b.request
		return
	}
	o.bounds = slices.Insert(o.bounds, at, b)
}
