package schedule

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Refusals by Reserve alone.
const (
	textBound   = "node(s) were not needed: the pod is bound already"
	textCrowded = "node(s) were refused: the pod's annotations leave no room for the placement, 256 KiB together at most"
)

// reservationKey is the key of the reservation that Reserve leaves for Bind.
const reservationKey fwk.StateKey = Name + "/reservation"

// reservation is a decision on its way to the API server.
type reservation struct {
	node string
	// machine is the machine that the decision is for.
	machine *alloc.Machine
	held    placement.Held
	// annotation is the encoded placement.
	annotation string
	// sent reports that this plugin bound the pod.
	sent bool
}

// Clone returns r itself: there is only one reservation.
func (r *reservation) Clone() fwk.StateData { return r }

// reservationOf returns the reservation of a cycle, nil for none.
func reservationOf(state fwk.CycleState) *reservation {
	data, _ := state.Read(reservationKey)
	made, _ := data.(*reservation)
	return made
}

// Reserve decides again, in the same state as Filter and so with the same answer, and holds the CPUs until the pod is
// bound or given up. Like Filter it leaves room, if it can, for pods of equal or higher priority that are nominated for
// the node. Reserve should come after DynamicResources: then it knows the devices of the pod, and prefers their NUMA
// nodes. If these have no room it decides without them, so that it always finds what Filter saw.
func (p *Plugin) Reserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	p.core.queue.done(pod.UID)
	cy := cycleOf(state)
	if cy == nil || cy.ask == nil {
		return nil
	}
	info, err := p.handle.SnapshotSharedLister().NodeInfos().Get(nodeName)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("reserve CPUs on node %s: %w", nodeName, err))
	}
	looks := []view{{info: info, cy: cy}}
	if with, some := p.withNominated(looks[0]); some {
		looks = []view{with, looks[0]}
	}
	made, status, reason := p.core.reserve(pod, looks, p.deviceNodes(pod, nodeName))
	switch {
	case status == nil:
	case reason == 0:
		return status // the pod is bound, and waits for nothing
	case reason&refusedByRule != 0:
		return p.refuse(cy, reason, status) // another try would end in the same way
	}
	if status != nil && state.IsPodGroupSchedulingCycle() {
		// The cycle of a group is a rehearsal: the pod may wait for the end of pods that it evicts. It counts with
		// unknown CPUs, and is asked again.
		p.core.forget(nodeName)
		return nil
	}
	if status != nil {
		// Filter admitted the pod: something changed in the meantime, and that wakes no pod that was not waiting yet.
		p.core.meters.lost()
		p.core.queue.activateOne(pod)
		return p.refuse(cy, reason|refusedByRace, status)
	}
	state.Write(reservationKey, made)
	return nil
}

// reserve chooses the pod's CPUs on a node, by the first view that has room, and records them. If the API server showed
// the pod bound here since its cycle began, the pod keeps that placement, and the refusal has no reason. A reservation
// in place of that record would free CPUs that the pod runs on.
func (c *core) reserve(pod *v1.Pod, looks []view, near nearDevices) (*reservation, *fwk.Status, refusal) {
	ask, n := looks[0].cy.ask, c.nodes.find(looks[0].info.Node().Name)
	if n == nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, placement.TextNoTopology), refusedByTopology
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if r := n.records[pod.UID]; r != nil && r.confirmed {
		return nil, fwk.NewStatus(fwk.Unschedulable, textBound), 0
	}
	if status, reason := n.closed(); status != nil {
		return nil, status.Clone(), reason
	}
	b := c.answers.takeBench()
	defer c.answers.benches.Put(b)
	var decision placement.Decision
	var refused placement.Refusal
	for _, v := range looks {
		if decision, refused = b.decide(n.occupy(v, &b.occupancy), ask, near); refused.OK() {
			break
		}
	}
	if !refused.OK() {
		return nil, fwk.NewStatus(fwk.Unschedulable, refused.Reason()), reasonOf(refused)
	}
	placed := decision.Annotation(ask, n.hash)
	made := &reservation{node: n.name, machine: n.machine, held: decision.Held(ask), annotation: placed.Encode()}
	if annotationBytes(pod)+len(made.annotation) > apivalidation.TotalAnnotationSizeLimitB {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, textCrowded), refusedByRule
	}
	n.put(pod.UID, &record{pod: pod, held: made.held, reserved: true})
	c.flights.reserve(pod.UID, flight{node: n.name, annotation: made.annotation, placed: placed})
	c.usage.set(pod.Namespace, pod.UID, int64(ask.CPUs()))
	c.meters.reserved()
	return made, nil, 0
}

// annotationBytes returns the size of a pod's annotations without the text of its placement, as an API server counts
// it. The API server checks the size on every update of a pod, its status included, but not when a Binding adds
// annotations.
func annotationBytes(pod *v1.Pod) int {
	sum := len(v1alpha1.AnnotationPlacement)
	for key, value := range pod.Annotations {
		if key != v1alpha1.AnnotationPlacement {
			sum += len(key) + len(value)
		}
	}
	return sum
}

// decide chooses CPUs on a node whose pods are already added up in b, in the preferred NUMA nodes if possible.
func (b *bench) decide(where placement.Node, ask *placement.Ask, near nearDevices) (placement.Decision, placement.Refusal) {
	where.PreferNodes, where.SpanNodes = near.all, near.each
	decision, refused := placement.Decide(&b.scratch, where, &b.occupancy, ask)
	if refused.OK() || near.all.IsEmpty() {
		return decision, refused
	}
	// The CPUs in these nodes can force more siblings to stay empty, and so need more CPUs than are free: decide
	// without the preference.
	where.PreferNodes, where.SpanNodes = cpuset.Set{}, cpuset.Set{}
	return placement.Decide(&b.scratch, where, &b.occupancy, ask)
}

// Unreserve gives up what Reserve held, if anything.
func (p *Plugin) Unreserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) {
	p.core.release(pod, nodeName)
	p.core.forget(nodeName)
	state.Delete(reservationKey)
}

// forget forgets the answers of a node, because a pinned pod without a record comes or goes.
func (c *core) forget(nodeName string) {
	if n := c.nodes.find(nodeName); n != nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.touch()
	}
}

// release gives a reservation up, unless the informer saw it bound first.
func (c *core) release(pod *v1.Pod, nodeName string) {
	if c.flights.at(pod.UID) != nodeName || !c.giveUp(nodeName, pod.UID) {
		return
	}
	c.flights.end(pod.UID)
	if !c.flights.isAmbiguous(pod.UID) {
		c.uncount(pod.Namespace, pod.UID)
	}
}

// giveUp ends a reservation. Its record stays for a while: the scheduler forgets the assumed pod only after this call,
// and snapshots are even older.
func (c *core) giveUp(nodeName string, uid types.UID) bool {
	n := c.nodes.find(nodeName)
	if n == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.records[uid]
	if r == nil || !r.reserved || r.confirmed {
		return false
	}
	r.reserved, r.sweeps = false, 1
	n.touch()
	return true
}
