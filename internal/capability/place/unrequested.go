package place

import "github.com/berth-project/berth/internal/intent/workload"

// Unrequested returns by how many CPUs the exclusive CPUs of pods exceed the requests of these pods, with the siblings
// that stay empty. Programs that only add up requests do not see these CPUs.
func (n *Node) Unrequested() (cpus float64) {
	n.settle()
	sum := int64(0)
	for _, p := range n.Pods.pods {
		sum += n.outcome.unrequestedMilli(p)
	}
	return float64(sum) / milli
}

// unrequestedMilli returns by how much the exclusive CPUs of a pod exceed its requests. It counts the present requests:
// a resize of requests alone leaves the pod its grant, and the grant's own sum. The requests of a provisional pod are
// not known.
func (o *outcome) unrequestedMilli(p *pod) int64 {
	if !o.open || p.has.grant == nil || !p.real() {
		return 0
	}
	pin := &p.asked.pin
	if p.asked.next.Wanted {
		pin = &p.asked.next
	}
	held := func(containers []workload.PinnedContainer) []int64 {
		all := make([]int64, len(containers))
		for i := range containers {
			all[i] = int64(p.has.grant.Parts[containers[i].Name].CPUs.Size()) * milli
		}
		return all
	}
	empty := p.has.grant.Occupied.Difference(p.has.grant.Own()).Size()
	return pin.BeyondMilli(held(pin.Pinned), held(pin.Others)) + int64(empty)*milli
}
