package placement

import (
	"cmp"
	"slices"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/alloc"
	"github.com/berth-project/berth/internal/workload"
)

// Counted is HeldAs for those who give CPUs to other pods: what a pod holds, and what it
// will while a resize is not over. The node chooses the CPUs of a resize and the annotation
// follows, so as long as a container has fewer than its limit says the rest counts as
// unknown, be it the limit that it asks for or that which stands, the larger one that the
// empty machine could follow. A container that is to have fewer holds what the annotation
// says until that follows. What the kubelet found infeasible counts for nothing.
//
// While a move of the pod stands, what it had and what it is to have counts, whether or not the
// pod is movable: its owner may change that at any time, also once the node has begun.
func Counted(m *alloc.Machine, p workload.Pinning, placed v1alpha1.Placement) Held {
	held := countedResize(m, p, placed)
	if p.Wanted && p.Move.Asked() && m != nil {
		held.move(m, p.Move)
	}
	return held
}

// move counts the CPUs of a move that the pod may have besides, as unknown ones: anybody may
// have written which. The node gives none away meanwhile, so that nobody gets these. A move
// that does not begin or end with what the pod has is none: the node refuses it.
func (h *Held) move(m *alloc.Machine, asked *workload.Move) {
	both := asked.From.Union(asked.To)
	if !both.IsSubsetOf(m.Pinnable()) || asked.From.Size() != asked.To.Size() || !asked.Between(h.holding.CPUs) {
		return
	}
	more := both.Difference(h.holding.CPUs).Size()
	h.unknown += int32(more)
	h.extra += int64(more) * milli
	h.resizing = true
}

// countedResize is Counted without moves.
func countedResize(m *alloc.Machine, p workload.Pinning, placed v1alpha1.Placement) Held {
	if !p.Changed || !p.Wanted || m == nil {
		return HeldAs(m, p, placed)
	}
	granted, pinned, others := claimsOf(m, &p, placed)
	grows := grow(m, p, pinned, func(limit, other int) int { return max(limit, other) }) ||
		grow(m, p, pinned, func(limit, other int) int { return min(limit, cmp.Or(other, limit)) })
	held := hold(m, &p, granted, pinned, others)
	held.resizing = p.Resizing && grows
	return held
}

// grow notes which of the claims lack CPUs for the limit that is chosen of both, and says
// whether there are such. Where the machine without other pods has no room for that there
// are none.
func grow(m *alloc.Machine, p workload.Pinning, pinned []claim, choose func(limit, other int) int) bool {
	p.Pinned = slices.Clone(p.Pinned)
	grows := false
	for i := range p.Pinned {
		c := &p.Pinned[i]
		c.CPUs = choose(c.CPUs, c.Other)
		if i < len(pinned) && !pinned[i].cpus.IsEmpty() { // else it shares the CPUs of the first one, or none are known
			pinned[i].grows = max(0, c.CPUs-pinned[i].cpus.Size())
			grows = grows || pinned[i].grows > 0
		}
	}
	if !grows {
		return false
	}
	ask := AskOf(p)
	if Never(new(alloc.Scratch), Node{Machine: m, AllocatableMilli: int64(pool(m).Size()) * milli}, &ask).OK() {
		return true
	}
	for i := range pinned {
		pinned[i].grows = 0
	}
	return false
}
