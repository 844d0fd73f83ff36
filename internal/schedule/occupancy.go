package schedule

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/internal/kubepod"
	"github.com/berth-project/berth/internal/placement"
	"github.com/berth-project/berth/internal/workload"
)

// view is one look at a node: its NodeInfo, and what differs from it in the
// cycle that looks. cy is nil where nothing does.
type view struct {
	info fwk.NodeInfo
	cy   *cycle
}

// own returns the pod that is being placed, which never stands in its own way.
func (v view) own() types.UID {
	if v.cy == nil {
		return ""
	}
	return v.cy.uid
}

// altered says whether the answer holds for this look only.
func (v view) altered() bool {
	return v.cy != nil && (v.cy.altered || v.cy.alone || v.cy.claimed != nil)
}

// occupy adds up what the pods of a node hold and returns the node as decisions
// need it. It is a function of the pods in the NodeInfo; what is not there but
// reserved, and what may have been bound unseen, comes on top. The caller holds
// n.mu.
func (n *node) occupy(v view, o *placement.Occupancy) placement.Node {
	*o = placement.Occupancy{}
	o.AddGiven(n.given)
	n.pass++
	n.behind = false
	own, extra := v.own(), requested{}
	for _, info := range v.info.GetPods() {
		pod := info.GetPod()
		if own != "" && pod.UID == own {
			extra.remove(requestedBy(pod))
			continue
		}
		n.meet(pod.UID)
		if held, pinned := n.holding(v, pod); pinned {
			o.Add(n.machine, &held)
		}
	}
	extra.add(n.addMissing(v, own, o))
	policy, _ := placement.PolicyOf(v.info.Node().Labels)
	extra.add(requestedOn(v.info))
	node := placement.Node{
		Machine:          n.machine,
		Policy:           policy,
		AllocatableMilli: v.info.GetAllocatable().GetMilliCPU(),
		RequestedMilli:   extra.milli,
		RequestedMemory:  extra.ScheduledMemory,
		RequestedHuge:    extra.ScheduledHuge,
	}
	if n.machine != nil {
		node.RequestedDevices = placement.CountDevices(n.machine.Topology(), extra.Devices)
	}
	return node
}

// requestedOn returns what the pods of a NodeInfo request.
func requestedOn(info fwk.NodeInfo) requested {
	has := info.GetRequested()
	r := requested{milli: has.GetMilliCPU()}
	r.ScheduledMemory = has.GetMemory()
	for name, count := range has.GetScalarResources() {
		if size := kubepod.PageSize(name); size > 0 {
			r.ScheduledHuge.Put(size, count)
		} else {
			r.Devices = append(r.Devices, workload.Device{Resource: string(name), Count: count})
		}
	}
	return r
}

// requested is what pods request: CPU in thousandths, and all else.
type requested struct {
	milli int64
	workload.Besides
}

func requestedBy(pod *v1.Pod) requested {
	var r requested
	r.milli, r.Besides = kubepod.ScheduledAll(pod)
	return r
}

func (r *requested) add(more requested) { r.sum(more, 1) }

func (r *requested) remove(less requested) { r.sum(less, -1) }

func (r *requested) sum(other requested, times int64) {
	r.milli += other.milli * times
	r.Add(other.Besides, times)
}

// holding returns what a pod of the NodeInfo holds, and whether it is pinned. A
// pod without a node name is a nominated one: whatever its annotations say, it
// has no placement yet.
func (n *node) holding(v view, pod *v1.Pod) (placement.Held, bool) {
	if pod.Spec.NodeName != "" {
		return n.heldBy(pod)
	}
	if !mayPin(pod) {
		return placement.Held{}, false
	}
	if v.cy != nil {
		if t, found := v.cy.trials[pod.UID]; found && t.node == n.name {
			return t.held, true
		}
	}
	pin, problems := pinningOf(pod)
	if len(problems) > 0 {
		return placement.Held{}, false
	}
	return placement.HeldBy(n.machine, pin, ""), pin.Wanted
}

// addMissing adds what is not in the NodeInfo: reservations younger than the
// snapshot, and ambiguous binds. It returns what they request, which the NodeInfo does
// not count either. The caller holds n.mu.
func (n *node) addMissing(v view, own types.UID, o *placement.Occupancy) requested {
	var request requested
	for uid, r := range n.records {
		if r.pass == n.pass || uid == own || !r.missing() || v.removed(uid) {
			continue
		}
		o.Add(n.machine, &r.held)
		request.add(requestedBy(r.pod))
	}
	for _, b := range n.ambiguous {
		if b.uid == own || v.removed(b.uid) {
			continue
		}
		request.add(n.addAmbiguous(b, o))
	}
	return request
}

// addAmbiguous adds what an ambiguous bind may have, and returns what it requests. The same
// pod may have come to the node a second time: then its request counts already,
// and its CPUs do unless they are others. The caller holds n.mu.
func (n *node) addAmbiguous(b *ambiguousBind, o *placement.Occupancy) requested {
	r := n.records[b.uid]
	present := b.pass == n.pass || r != nil && r.missing()
	if !present || r == nil || r.held.CPUs() != b.held.CPUs() {
		o.Add(n.machine, &b.held)
	}
	if present || !b.shares && n.firstOf(b.uid) != b {
		return requested{}
	}
	return b.request
}

// firstOf returns the first ambiguous bind of a pod, nil for none: a pod with two, which
// were to have different CPUs, requests no more than once. The caller holds mu.
func (n *node) firstOf(uid types.UID) *ambiguousBind {
	for _, other := range n.ambiguous {
		if other.uid == uid {
			return other
		}
	}
	return nil
}

// meet notes that the walk over the pods met one. The caller holds n.mu.
func (n *node) meet(uid types.UID) {
	for _, b := range n.ambiguous {
		if b.uid == uid {
			b.pass = n.pass
		}
	}
}

// removed says whether the cycle that looks took the pod away.
func (v view) removed(uid types.UID) bool {
	if v.cy == nil {
		return false
	}
	_, found := v.cy.removed[uid]
	return found
}
