package placement

import (
	"cmp"
	"slices"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Occupancy is what the pods of one node hold. It depends only on the set of pods, not on the order in which they are
// added. A pod cannot be removed; the caller adds up the others again. The zero value is a node without pinned pods. It
// is not safe for concurrent change.
type Occupancy struct {
	// Taken has the CPUs that are given out.
	Taken alloc.Taken
	// ExtraMilli is by how much the CPUs given out exceed the requests of their containers, in thousandths: the part
	// that the sum of requests does not show.
	ExtraMilli int64
	// Unknown is how many more CPUs are promised to pods, although it is not known which. Each CPU in Overlaps adds
	// one: one of its two pods will get another CPU.
	Unknown int
	// Resizing says that the node is choosing CPUs for a pod now.
	Resizing bool
	// Clash says that two pods share a NUMA node although one of them excludes the other there. No answer depends on it.
	Clash bool
	// Overlaps are the CPUs that two pods hold, which should not happen.
	Overlaps cpuset.Set
	// bounds is sorted by kind and nodes; each such pair is distinct.
	bounds []bound
}

// bound is memory that may come from some NUMA nodes only, and the requested part of it. The kind is the size of its
// huge pages, or 0 for memory in no huge pages. Kinds below 0 are devices: -1 is the first resource of the topology,
// and so on. Devices are assumed to be in the NUMA nodes of the pod's CPUs.
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
	o.Unknown += shared.Size() // the node places one of the two pods again
	o.Clash = o.Clash || m.Clash(&o.Taken, h.holding)
	m.Hold(&o.Taken, h.holding)
}

// AddMemory adds the memory of a pod whose CPUs and requests count already: it is not known yet whether its memory comes
// from the NUMA nodes that count, or from those of h.
func (o *Occupancy) AddMemory(h *Held) {
	for _, b := range h.bounds {
		if b.kind >= 0 {
			b.request = 0
			o.bind(b)
		}
	}
}

// Overbound reports whether more memory than there is, of one page size, is bound to the same NUMA nodes as some memory
// of h, which must have been added.
func (o *Occupancy) Overbound(m *alloc.Machine, h *Held) bool {
	excess := o.Excess(m)
	return slices.ContainsFunc(h.bounds, excess.has)
}

// Excess is memory that is bound to NUMA nodes which have less.
type Excess struct {
	topology *topology.Topology
	bounds   []bound
}

// Excess returns the memory that is too much for a machine. Like binder, it checks each bound beside the earlier ones.
// Their order is not known here, so a bound counts as too much only if it fits in no order: a bound that may have come
// last is removed first.
func (o *Occupancy) Excess(m *alloc.Machine) Excess {
	left := slices.Clone(o.bounds)
	for again := true; again; {
		again = false
		for i, one := range slices.Backward(left) { // deleting leaves the bounds before it in place
			// The kubelet decides which devices a pod gets.
			if one.kind < 0 || boundBeside(left, one) <= bindable(m.Topology(), one.nodes, one.kind) {
				left, again = slices.Delete(left, i, i+1), true
			}
		}
	}
	return Excess{m.Topology(), left}
}

// Nodes returns the NUMA nodes that have less memory than is bound to them, and to which memory of h is bound.
func (e Excess) Nodes(h *Held) (nodes cpuset.Set) {
	for _, own := range h.bounds {
		if e.has(own) {
			nodes = nodes.Union(own.nodes.ids(e.topology))
		}
	}
	return nodes
}

func (e Excess) has(own bound) bool {
	return slices.ContainsFunc(e.bounds, func(one bound) bool { return one.kind == own.kind && one.nodes == own.nodes })
}

// boundBeside returns how many bytes of the same kind are bound to any node of the given bound.
func boundBeside(bounds []bound, one bound) int64 {
	sum := int64(0)
	for _, other := range bounds {
		if other.kind == one.kind && other.nodes&one.nodes != 0 {
			sum += other.bytes
		}
	}
	return sum
}

// Sound reports whether all pods may have what was added up: no two pods have the same CPU, or share a NUMA node that one
// of them has for itself, no CPUs are being chosen that might be another pod's, and the unknown CPUs leave a whole core.
func (o *Occupancy) Sound(m *alloc.Machine) bool {
	return !o.Resizing && !o.Clash && o.Overlaps.IsEmpty() && hasCore(m, m.Topology().Containers().Difference(o.Taken.CPUs()), o.Unknown)
}

// Equal reports whether two otherwise equal nodes with these occupancies give every pod the same answer.
func (o *Occupancy) Equal(other *Occupancy) bool {
	return o.Taken == other.Taken && o.ExtraMilli == other.ExtraMilli && o.Unknown == other.Unknown && o.Resizing == other.Resizing &&
		o.Overlaps == other.Overlaps && slices.Equal(o.bounds, other.bounds)
}

// Clone returns a copy that can be changed without changing o.
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
