package schedule

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// forges says whether a bound pod that asks for no CPUs has a placement which it was not
// given: no scheduler gives such a pod any, nor does the agent of its node. It may have asked
// when it was bound, since keys are read once. So that is said only of a pod that its creator
// bound, since a Binding sets a condition that such a pod lacks until the kubelet reports
// it; of one that was seen before and did not ask then, when it was not bound or had no
// placement; and of one of which it was said before. before is the pod as the informer
// showed it last, nil for not at all. The caller holds mu.
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

// isForged says whether a record that counts stands for a placement which the pod was not
// given: that of no other pod without keys is without CPUs. The caller holds mu.
func (n *node) isForged(r *record) bool {
	return n.unasked[r.pod.UID] && r.held.CPUs().IsEmpty()
}

// noteAsked notes whether a pinned pod has ever asked for CPUs, as far as
// is known; old is its record before. The caller holds mu.
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
