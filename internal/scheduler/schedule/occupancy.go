package schedule

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/kubepod"
	"github.com/berth-project/berth/internal/intent/workload"
)

// view is one observation of a node: its NodeInfo, and how the current cycle differs from it. cy is nil if it does not.
type view struct {
	info fwk.NodeInfo
	cy   *cycle
}

// own returns the UID of the pod that is being placed. Its own CPUs never count against it.
func (v view) own() types.UID {
	if v.cy == nil {
		return ""
	}
	return v.cy.uid
}

// altered reports whether the answer is valid for this view only.
func (v view) altered() bool {
	return v.cy != nil && (v.cy.altered || v.cy.alone || v.cy.claimed != nil)
}

// occupy adds up what the pods of a node hold, and returns the node in the form that decisions need. The result is a
// function of the pods in the NodeInfo, plus reservations and ambiguous binds that are not in it. The caller holds
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

// requested is what pods request: CPU in thousandths, and all other resources.
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

// holding returns what a pod of the NodeInfo holds, and whether it is pinned. A pod without a node name is a nominated
// pod: it has no placement yet, whatever its annotations are.
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

// addMissing adds what is not in the NodeInfo: reservations younger than the snapshot, and ambiguous binds. It returns
// their requests, which the NodeInfo does not count either. The caller holds n.mu.
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
		r := n.records[b.uid]
		if r != nil && b.pass != n.pass && !r.missing() {
			r = nil
		}
		n.addAmbiguous(b, r, o)
		if b.pass != n.pass && r == nil && n.requestsFirst(b) {
			request.add(b.request)
		}
	}
	return request
}

// addAmbiguous adds what an ambiguous bind holds beyond what counts already for its pod: the record r, nil for none, and
// earlier ambiguous binds. With the same CPUs, only memory in other NUMA nodes is more. The caller holds n.mu.
func (n *node) addAmbiguous(b *ambiguousBind, r *record, o *placement.Occupancy) {
	same := r != nil && r.held.SameCPUs(&b.held)
	if same && r.held.Equal(&b.held) {
		return
	}
	for _, other := range n.ambiguous {
		if other == b || b.shares || same {
			break
		}
		same = other.uid == b.uid && other.held.SameCPUs(&b.held)
	}
	if same {
		o.AddMemory(&b.held)
	} else {
		o.Add(n.machine, &b.held)
	}
}

// requestsFirst reports whether no earlier ambiguous bind of the same pod counts its request. A pod with two ambiguous
// binds, for different placements, requests no more than once. The caller holds mu.
func (n *node) requestsFirst(b *ambiguousBind) bool { return b.shares || n.firstOf(b.uid) == b }

// firstOf returns the first ambiguous bind of a pod, nil for none. The caller holds mu.
func (n *node) firstOf(uid types.UID) *ambiguousBind {
	for _, other := range n.ambiguous {
		if other.uid == uid {
			return other
		}
	}
	return nil
}

// meet notes that a walk over the pods met a pod. The caller holds n.mu.
func (n *node) meet(uid types.UID) {
	for _, b := range n.ambiguous {
		if b.uid == uid {
			b.pass = n.pass
		}
	}
}

// removed reports whether the cycle removed the pod.
func (v view) removed(uid types.UID) bool {
	if v.cy == nil {
		return false
	}
	_, found := v.cy.removed[uid]
	return found
}
