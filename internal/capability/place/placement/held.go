package placement

import (
	"math"
	"slices"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Held is what one bound pod holds of its node, read once from its annotation. It does not change and belongs to the
// machine it was made with. The zero value holds nothing.
type Held struct {
	holding alloc.Holding
	extra   int64 // thousandths beyond the request, siblings left empty included
	unknown int32
	// resizing says that the node is giving the pod other CPUs now.
	resizing bool
	bounds   []bound
}

// CPUs returns the known CPUs, without siblings.
func (h *Held) CPUs() cpuset.Set { return h.holding.CPUs }

// Unknown returns how many CPUs the pod was promised without a credible record of which.
func (h *Held) Unknown() int { return int(h.unknown) }

// Resizing reports whether the node is giving the pod other or more CPUs now; its annotation will say which.
func (h *Held) Resizing() bool { return h.resizing }

// ExtraMilli returns by how much the held and promised CPUs exceed the requests of the pinned containers, in
// thousandths of a CPU.
func (h *Held) ExtraMilli() int64 { return h.extra }

// SameCPUs reports whether h and other hold the same known CPUs, with the same exclusivity.
func (h *Held) SameCPUs(other *Held) bool { return h.holding == other.holding }

// Equal reports whether h and other hold the same in all respects.
func (h *Held) Equal(other *Held) bool {
	return h.SameCPUs(other) && h.extra == other.extra && h.unknown == other.unknown && h.resizing == other.resizing &&
		slices.Equal(h.bounds, other.bounds)
}

// HeldBy returns what a bound pod holds by its annotation berth.dev/placement ("" if it has none). HeldBy believes each
// part without a Doubt, but no part of an annotation that cannot be read.
//
// A credible part is valid whatever the keys of the pod say now: they are read once, when the pod is created.
// Exclusivity is valid only if the pod still asks for it. A container that asks for CPUs and has no credible part holds
// as many unknown CPUs, but none if the pod could never be pinned. m may be nil for a node with an unknown topology:
// then all CPUs are unknown.
func HeldBy(m *alloc.Machine, p workload.Pinning, annotation string) Held {
	return HeldAs(m, p, Believed(annotation))
}

// Believed returns the decoded annotation, or nothing if it cannot be read.
func Believed(annotation string) v1alpha1.Placement {
	if annotation != "" {
		if placed, problems := v1alpha1.DecodePlacement(annotation); len(problems) == 0 {
			return placed
		}
	}
	return v1alpha1.Placement{}
}

// HeldAs is HeldBy for a decoded annotation. placed is not changed.
func HeldAs(m *alloc.Machine, p workload.Pinning, placed v1alpha1.Placement) Held {
	if !p.Wanted && len(placed.Containers) == 0 {
		return Held{}
	}
	granted, pinned, others := claimsOf(m, &p, placed)
	return hold(m, &p, granted, pinned, others)
}

// claimsOf returns the credible part of a placement: the granted exclusivity, and the claims of the pod's Wants and of
// its other containers.
func claimsOf(m *alloc.Machine, p *workload.Pinning, placed v1alpha1.Placement) (alloc.Holding, []claim, []claim) {
	pinned, others := make([]claim, wants(p)), make([]claim, len(p.Others))
	var granted alloc.Holding
	if m != nil && len(placed.Containers) > 0 {
		r := Reader{Machine: m, Pod: p, Placed: placed}
		r.claims(p.Pinned, pinned)
		r.claims(p.Others, others)
		policy, numa := r.Exclusive()
		granted = alloc.Holding{Exclusive: exclusiveOf(policy), SingleNUMA: numa}
	}
	return granted, pinned, others
}

// claim is the part of one container, or of all with PerPod. cpus is empty if nothing credible is known.
type claim struct {
	cpus cpuset.Set
	mems nodeMask
	// grows is how many more CPUs it should have; which ones is not known.
	grows int
}

// wants returns how many sets of CPUs a pod gets.
func wants(p *workload.Pinning) int {
	if p.PerPod {
		return min(1, len(p.Pinned))
	}
	return len(p.Pinned)
}

// hold adds claims to the granted exclusivity: the claims of the pod's Wants, and of its other containers.
func hold(m *alloc.Machine, p *workload.Pinning, granted alloc.Holding, pinned, others []claim) Held {
	h := Held{holding: granted}
	h.take(p, p.Pinned, pinned)
	h.take(p, p.Others, others)
	if m != nil && !h.holding.CPUs.IsEmpty() {
		h.bounds = append(h.bounds, deviceBounds(m.Topology(), p, h.holding.CPUs)...)
	}
	has, left := make([]int64, len(pinned)), -1
	for i, c := range pinned {
		more := c.grows
		if c.cpus.IsEmpty() {
			more = p.Pinned[i].CPUs
		}
		if more > 0 {
			if left < 0 {
				left = unknownMost(m, p, h.holding.CPUs)
			}
			more = min(more, left)
			left -= more
			h.unknown += int32(more)
		}
		has[i] = int64(c.cpus.Size()+more) * milli
	}
	had := make([]int64, len(others))
	for i, c := range others {
		had[i] = int64(c.cpus.Size()) * milli
	}
	h.extra = p.BeyondMilli(has, had)
	if !h.holding.CPUs.IsEmpty() {
		h.extra += int64(h.Occupied(m).Size()-h.holding.CPUs.Size()) * milli
	}
	return h
}

// take adds the CPUs and the memory of the claims of containers.
func (h *Held) take(p *workload.Pinning, containers []workload.PinnedContainer, claims []claim) {
	for i, c := range claims {
		h.holding.CPUs = h.holding.CPUs.Union(c.cpus)
		if c.mems == 0 {
			continue
		}
		for has := range needIn(p, containers, i).bounds(c.mems) {
			h.bounds = append(h.bounds, has)
		}
	}
}

// unknownMost returns how many CPUs the pod can have at most in addition to the known ones. A pod that asks for more
// than the machine could ever give has none: no node pins it, and it must not close the node to others.
func unknownMost(m *alloc.Machine, p *workload.Pinning, known cpuset.Set) int {
	if m == nil {
		return math.MaxInt32
	}
	most := m.Pinnable().Difference(m.Topology().Efficiency()).Size()
	if all := m.Topology().Containers(); known.IsEmpty() && (p.CPUs() > most || !leavesCore(m, all, p.CPUs())) {
		return 0
	}
	return max(0, most-known.Size())
}

// leavesCore reports whether a whole core can remain of all when n CPUs are removed.
func leavesCore(m *alloc.Machine, all cpuset.Set, n int) bool {
	for _, core := range m.Topology().Cores {
		if core.CPUs.IsSubsetOf(all) && n <= all.Size()-core.CPUs.Size() {
			return true
		}
	}
	return false
}

// Occupied returns the CPUs that no other pod may have: the held CPUs, and their siblings that should stay empty.
func (h *Held) Occupied(m *alloc.Machine) cpuset.Set {
	if h.holding.Exclusive != alloc.PCPULevel {
		return h.holding.CPUs
	}
	var alone alloc.Taken
	m.Hold(&alone, h.holding)
	return alone.CPUs()
}

// claims fills in the claims of containers, in their order. With PerPod, the containers share the first claim.
func (r *Reader) claims(containers []workload.PinnedContainer, claims []claim) {
	if r.Pod.PerPod {
		if !r.Agree(containers) {
			return
		}
		containers = containers[:1]
	}
	for i := range containers {
		if part, doubt := r.Read(&containers[i]); doubt == NoDoubt {
			r.Used = r.Used.Union(part.CPUs)
			claims[i] = claim{cpus: part.CPUs, mems: maskOf(r.Machine.Topology(), part.Mems)}
		}
	}
}
