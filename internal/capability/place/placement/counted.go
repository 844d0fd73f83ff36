package placement

import (
	"cmp"
	"slices"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/intent/workload"
)

// Counted is HeldAs for callers that give CPUs to other pods: what a pod holds, and what it will hold after a resize
// that is under way. The node chooses the CPUs of a resize and the annotation follows. While a container has fewer CPUs
// than its limit, the missing CPUs count as unknown. The limit here is the larger of the requested limit and the limit
// in effect, or the smaller if the empty machine could not satisfy the larger. A container that should have fewer CPUs
// holds those of the annotation until it follows. A resize that the kubelet found infeasible does not count.
//
// While a move of the pod is requested, its old and new CPUs count, whether or not the pod is movable: its owner may
// change that at any time, even after the node has begun.
func Counted(m *alloc.Machine, p workload.Pinning, placed v1alpha1.Placement) Held {
	held := countedResize(m, p, placed)
	if p.Wanted && p.Change.Move.Asked() && m != nil {
		held.move(m, p.Change.Move)
	}
	return held
}

// move counts the additional CPUs of a move as unknown: anybody may have written the annotation that names them. The
// node gives none away during the move, so no pod gets them. A move that does not begin or end with the pod's CPUs is
// ignored, as the node refuses it.
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

func countedResize(m *alloc.Machine, p workload.Pinning, placed v1alpha1.Placement) Held {
	if !p.Change.Changed || !p.Wanted || m == nil {
		return HeldAs(m, p, placed)
	}
	granted, pinned, others := claimsOf(m, &p, placed)
	grows := grow(m, p, pinned, func(limit, other int) int { return max(limit, other) }) ||
		grow(m, p, pinned, func(limit, other int) int { return min(limit, cmp.Or(other, limit)) })
	held := hold(m, &p, granted, pinned, others)
	held.resizing = p.Change.Resizing && grows
	return held
}

// grow records which claims lack CPUs for the limit that choose returns, and reports whether any does. It records none
// if the machine has no room for them without other pods.
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
	if Never(new(alloc.Scratch), Node{Machine: m, AllocatableMilli: int64(m.Topology().Containers().Size()) * milli}, &ask).OK() {
		return true
	}
	for i := range pinned {
		pinned[i].grows = 0
	}
	return false
}
