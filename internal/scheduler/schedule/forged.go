package schedule

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// forges reports whether a bound pod that asks for no CPUs has a placement that nobody gave it. No scheduler gives such
// a placement, nor does the agent of the node. But keys are read once: the pod may have asked when it was bound. So
// forges is true only in three cases. The pod's creator bound it: a Binding sets a condition that this pod lacks until
// the kubelet reports it. Or the pod was seen without asking, unbound or without a placement. Or the placement was
// forged before. before is the pod that the informer showed last, nil for none. The caller holds n.mu.
func (n *node) forges(before, pod *v1.Pod) bool {
	r := n.records[pod.UID]
	switch {
	case !bringsPlacement(pod):
		return false
	case r != nil && r.holds():
		return n.isForged(r)
	case before == nil:
		return !shownBound(pod)
	}
	pin, _ := pinningOf(before)
	return !pin.Wanted && (before.Spec.NodeName == "" || !bringsPlacement(before))
}

// isForged reports whether a valid record is of a forged placement: no other pod without keys has a record without
// CPUs. The caller holds mu.
func (n *node) isForged(r *record) bool {
	return n.unasked[r.pod.UID] && r.held.CPUs().IsEmpty()
}

// noteAsked records whether a pinned pod has ever asked for CPUs, as far as is known; old is its previous record. The
// caller holds mu.
func (n *node) noteAsked(old *record, pod *v1.Pod, asks bool) {
	switch {
	case asks:
		delete(n.unasked, pod.UID)
	case bringsPlacement(pod) && (old == nil || !old.holds()):
		if n.unasked == nil {
			n.unasked = map[types.UID]bool{}
		}
		n.unasked[pod.UID] = true
	}
}
