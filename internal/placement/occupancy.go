package placement

import (
	"cmp"
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
	// Unknown is how many more CPUs are promised without anybody knowing which: others
	// than Overlaps, too.
	Unknown int
	// Resizing says that the node chooses CPUs for a pod at this moment.
	Resizing bool
	// Overlaps holds the CPUs that two pods hold, which should not be.
	Overlaps cpuset.Set
	// bounds is sorted by kind and nodes, which together are distinct.
	bounds []bound
}

// bound is memory that may come from some NUMA nodes only, and the part of it that
// was requested: in huge pages of a size, the kind, or of kind 0 in no huge pages. Below 0
// it is devices, of kind -1 those of the first resource of the topology, and so on, which
// are taken to be in the NUMA nodes of the pod's CPUs.
type bound struct {
	nodes          nodeMask
	kind           int64
	bytes, request int64
}

// Add adds what one pod holds. m must be the machine that h was made with.
func (o *Occupancy) Add(m *alloc.Machine, h *Held) {
	o.ExtraMilli += h.extra
	o.Unknown += int(h.unknown)
	o.Resizing = o.Resizing || h.resizing
	for _, b := range h.bounds {
		o.bind(b)
	}
	if m == nil || h.holding.CPUs.IsEmpty() {
		return
	}
	shared := o.Taken.CPUs().Intersect(h.Occupied(m))
	o.Overlaps = o.Overlaps.Union(shared)
	o.Unknown += shared.Size() // the node places one of the two pods anew
	m.Hold(&o.Taken, h.holding)
}

// Overbound says whether more memory is bound than there is, where h, which is among what
// was added, binds some: to its NUMA nodes, in pages of a size. It counts as binder does, to
// which a bound is too much or not beside those before it. Which came first is not known
// here, so only what fits in no order is too much: what may have come last goes first.
func (o *Occupancy) Overbound(m *alloc.Machine, h *Held) bool {
	left := slices.Clone(o.bounds)
	for again := true; again; {
		again = false
		for i, one := range slices.Backward(left) { // what goes leaves those before it where they are
			// Which devices a pod gets the kubelet decides.
			if one.kind < 0 || boundBeside(left, one) <= bindable(m.Topology(), one.nodes, one.kind) {
				left, again = slices.Delete(left, i, i+1), true
			}
		}
	}
	return slices.ContainsFunc(h.bounds, func(own bound) bool {
		return slices.ContainsFunc(left, func(one bound) bool { return one.kind == own.kind && one.nodes == own.nodes })
	})
}

// boundBeside returns how many bytes of the same kind are bound to any of the nodes of one.
func boundBeside(bounds []bound, one bound) int64 {
	sum := int64(0)
	for _, other := range bounds {
		if other.kind == one.kind && other.nodes&one.nodes != 0 {
			sum += other.bytes
		}
	}
	return sum
}

// Sound says whether all may have what was added up: no two pods have the same CPU, none is
// being chosen that might be another pod's, and those that are not known leave a whole core.
func (o *Occupancy) Sound(m *alloc.Machine) bool {
	return !o.Resizing && o.Overlaps.IsEmpty() && hasCore(m, pool(m).Difference(o.Taken.CPUs()), o.Unknown)
}

// Equal says whether two nodes with these occupancies, which are else the same,
// answer every pod alike.
func (o *Occupancy) Equal(other *Occupancy) bool {
	return o.Taken == other.Taken && o.ExtraMilli == other.ExtraMilli && o.Unknown == other.Unknown && o.Resizing == other.Resizing &&
		o.Overlaps == other.Overlaps && slices.Equal(o.bounds, other.bounds)
}

// Clone returns a copy that can be added to without changing o.
func (o *Occupancy) Clone() Occupancy {
	c := *o
	c.bounds = slices.Clone(o.bounds)
	return c
}

func (o *Occupancy) bind(b bound) {
	at, found := slices.BinarySearchFunc(o.bounds, b, func(has, b bound) int {
		return cmp.Or(cmp.Compare(has.kind, b.kind), cmp.Compare(has.nodes, b.nodes))
	})
	if found {
		o.bounds[at].bytes += b.bytes
		o.bounds[at].request += b.request
		return
	}
	o.bounds = slices.Insert(o.bounds, at, b)
}
