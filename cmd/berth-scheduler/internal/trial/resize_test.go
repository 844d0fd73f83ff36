package trial

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/grant"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/kubepod"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/topology"
)

// resizing is a resize in place of one pod.
type resizing struct {
	// before is the pod before the resize.
	before *v1.Pod
	// early says that it began before the pod was bound.
	early bool
	// answered says that the agent has written the CPUs of the new limits.
	answered bool
	// unseen says that the scheduler has not seen yet that a limit of memory rose.
	unseen bool
}

// resize takes one step of the resize of a random pod, or begins one. The pod's owner, the kubelet and the agent take
// their steps one by one, so pods are reserved and bound in between, and the scheduler sees the steps late. But the
// agent chooses CPUs only when the scheduler has seen that it will; if the resize began before the pod was bound, the
// scheduler sees the choice at once. Otherwise two pods may get the same CPUs: the agent, which decides in the end, then
// places the later pod again. At most one resize of a node is under way.
func (q *quickStorm) resize() {
	var under, still []*entry
	busy := map[string]bool{}
	for _, e := range q.pods {
		if e.resizing != nil && alive(e.stored) {
			under, busy[e.stored.Spec.NodeName] = append(under, e), true
		}
	}
	for _, e := range q.pods {
		if node := e.stored.Spec.NodeName; e.resizing == nil && alive(e.stored) && (node == "" || !busy[node]) {
			still = append(still, e)
		}
	}
	switch {
	case len(under) > 0 && (len(still) == 0 || q.rand.IntN(4) > 0):
		q.goOn(under[q.rand.IntN(len(under))])
	case len(still) > 0:
		q.ask(still[q.rand.IntN(len(still))])
	}
}

// alive reports whether a pod has CPUs of its own to resize.
func alive(p *v1.Pod) bool {
	_, wants := asked(p)
	return p.Annotations[v1alpha1.AnnotationCPUSetScheduler] == "true" && wants["app"].cpus > 0 && p.DeletionTimestamp == nil &&
		p.Status.Phase != v1.PodSucceeded
}

// ask changes the limits of a pod, as its owner does. It may happen before the pod is bound.
func (q *quickStorm) ask(e *entry) {
	p := e.stored.DeepCopy()
	if p.Spec.NodeName != "" {
		carriedOut(p)
		e.resizing = &resizing{before: p.DeepCopy()}
	}
	p.Generation++
	e.resized = true
	r := &p.Spec.Containers[0].Resources
	r.Limits[v1.ResourceCPU] = *resource.NewQuantity(max(1, (r.Requests.Cpu().MilliValue()+999)/1000)+q.rand.Int64N(6), resource.DecimalSI)
	if had := r.Limits.Memory().Value(); had > 0 && q.rand.IntN(3) == 0 {
		bytes := max(r.Requests.Memory().Value(), []int64{256 * mi, gi, 5 * gi}[q.rand.IntN(3)])
		r.Limits[v1.ResourceMemory] = *resource.NewQuantity(bytes, resource.BinarySI)
		if e.resizing != nil {
			e.resizing.unseen = bytes > had
		}
	}
	q.step(e, p)
}

// goOn takes the next step of a resize.
func (q *quickStorm) goOn(e *entry) {
	p := e.stored.DeepCopy()
	switch its := kubepod.Of(p); {
	case e.shown != e.stored:
		q.show(e)
	case its.Held() && q.rand.IntN(2) == 0:
		p.Spec = *e.resizing.before.Spec.DeepCopy()
		p.Generation++
		carriedOut(p)
		q.step(e, p)
		e.resizing = nil
	case its.Held():
		p.Status.Conditions = p.Status.Conditions[:1]
		q.step(e, p)
	case !e.resizing.answered && q.rand.IntN(4) > 0 && q.answer(e):
	case !e.resizing.answered && q.rand.IntN(4) > 0:
		reason := []string{v1.PodReasonDeferred, v1.PodReasonInfeasible}[q.rand.IntN(2)]
		p.Status.Conditions = append(p.Status.Conditions[:1:1], v1.PodCondition{Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: reason})
		q.step(e, p)
	default:
		carriedOut(p)
		q.step(e, p)
		e.resizing = nil
	}
}

// carriedOut makes the status of a bound pod say that the resources of its spec are in effect.
func carriedOut(p *v1.Pod) {
	p.Status.ContainerStatuses = nil
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, v1.ContainerStatus{
			Name: c.Name, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}, Resources: c.Resources.DeepCopy(),
		})
	}
	p.Status.Conditions = p.Status.Conditions[:1]
	p.Status.ObservedGeneration = p.Generation
}

// step stores what somebody else than the scheduler wrote, and shows it in half of the cases.
func (q *quickStorm) step(e *entry, p *v1.Pod) {
	q.store(e, p)
	if q.rand.IntN(2) == 0 || e.resizing != nil && e.resizing.early {
		q.show(e)
	}
}

// outgrown notes the pods of a node while the scheduler does not know that a limit of memory rose there: none of them was
// compared with it.
func (q *quickStorm) outgrown(node string) {
	if slices.ContainsFunc(q.pods, func(e *entry) bool {
		return e.resizing != nil && e.resizing.unseen && e.stored.Spec.NodeName == node
	}) {
		q.nodes.exempt(node, q.on(node))
	}
}

// answer chooses the CPUs of a resize as the node's agent does, with its code, and reports whether there are any. The
// agent knows the stored pods.
func (q *quickStorm) answer(e *entry) bool {
	p, spec := e.stored, q.specs[e.stored.Spec.NodeName]
	m := q.machine(spec)
	n := placement.Node{Machine: m, AllocatableMilli: q.nodes.nodes[p.Spec.NodeName].allocatable}
	var others placement.Occupancy
	for _, other := range q.on(p.Spec.NodeName) {
		if other == p || kubepod.Complete(other) {
			continue
		}
		milli, all := kubepod.ScheduledAll(other)
		n.RequestedMilli += milli
		n.RequestedMemory += all.ScheduledMemory
		n.RequestedHuge.Add(all.ScheduledHuge, 1)
		for k, count := range placement.CountDevices(m.Topology(), all.Devices) {
			n.RequestedDevices[k] += count
		}
		pin, _ := workload.PinningOf(kubepod.Of(other))
		held := placement.HeldBy(m, pin, other.Annotations[v1alpha1.AnnotationPlacement])
		others.Add(m, &held)
	}
	pin, _ := workload.PinningOf(kubepod.Of(p).CarriedOut())
	ask := placement.AskOf(pin)
	placed, _ := v1alpha1.DecodePlacement(p.Annotations[v1alpha1.AnnotationPlacement])
	has := map[string]grant.Part{}
	for name, c := range placed.Containers {
		has[name] = grant.Part{CPUs: parsed(v1alpha1.CPUList(c.CPUs)), Mems: parsed(v1alpha1.CPUList(c.Mems))}
	}
	d, refused := grant.Refit{Scratch: new(alloc.Scratch), Node: n, Others: &others, Ask: &ask}.Keep(has)
	if !refused.OK() {
		return false
	}
	next := p.DeepCopy()
	next.Annotations[v1alpha1.AnnotationPlacement] = d.Annotation(&ask, spec.Hash).Encode()
	q.nodes.sized[p.Name] = sizes(p)
	e.resizing.answered = true
	q.resizes++
	q.step(e, next)
	return true
}

// machine compiles a published topology.
func (q *quickStorm) machine(spec v1alpha1.NodeTopologySpec) *alloc.Machine {
	t, err := topology.FromSpec(spec)
	if err != nil {
		q.Fatal(err)
	}
	m, err := alloc.Compile(t)
	if err != nil {
		q.Fatal(err)
	}
	return m
}

// sizes returns how many CPUs each container of a pod must have.
func sizes(p *v1.Pod) map[string]int {
	_, wants := asked(p)
	all := map[string]int{}
	for name, w := range wants {
		all[name] = w.cpus
	}
	return all
}
