package schedule

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/kubepod"
	"github.com/berth-project/berth/internal/node/apiclient"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// watchPods follows the pods and nodes of the scheduler's own informers.
func (c *core) watchPods() error {
	informers := c.handle.SharedInformerFactory().Core().V1()
	if err := c.hiding.watch(informers.Pods().Informer()); err != nil {
		return err
	}
	pods, err := informers.Pods().Informer().AddEventHandler(handler(c.onPod, c.offPod))
	if err != nil {
		return watchError("pods", err)
	}
	nodes, err := informers.Nodes().Informer().AddEventHandler(handler(c.machines.onNode, c.machines.offNode))
	if err != nil {
		return watchError("nodes", err)
	}
	c.listed = []cache.InformerSynced{pods.HasSynced, nodes.HasSynced}
	return nil
}

// catchUp waits until the plugin has seen all pods and nodes of the initial lists, or ctx ends. The scheduler waits for
// its own handlers only, so its first cycle could begin earlier. The plugin would not know yet how many CPUs each
// namespace has, and which nodes offer CPUs that run no containers.
func (c *core) catchUp(ctx context.Context) {
	if c.caughtUp.Load() {
		return
	}
	for _, done := range c.listed {
		if !wait(ctx, done) {
			return
		}
	}
	c.caughtUp.Store(true)
}

// onPod records the state of a pod that the API server shows.
func (c *core) onPod(old, pod *v1.Pod) {
	if old != nil && old.UID != pod.UID {
		c.nodes.sums.drop(old) // its end was missed
	}
	c.take(old, pod, false)
}

// take does the work of onPod; ahead reports that the informer may not show the pod yet.
func (c *core) take(old, pod *v1.Pod, ahead bool) {
	switch {
	case kubepod.Complete(pod):
		c.nodes.sums.drop(pod)
	case pod.Spec.NodeName != "":
		c.nodes.sums.count(pod, ahead)
	}
	heed(c, old, pod, ahead)
}

// heed does the work of take except for the sums of requests.
func heed(c *core, old, pod *v1.Pod, ahead bool) {
	if !kubepod.MayPin(pod) && !c.remembers(pod) {
		c.onOrdinary(pod)
		return
	}
	switch {
	case kubepod.Complete(pod):
		c.onGone(pod.UID, pod.Namespace)
		c.dropRecord(pod.Spec.NodeName, pod.UID)
	case pod.Spec.NodeName != "":
		if old != nil && asksLate(old, pod) {
			c.noteLate(pod)
		}
		c.onBound(old, pod, ahead)
	case old != nil && (asksDifferently(old, pod) || c.madeRoom(old, pod)):
		c.queue.activateOne(pod)
	}
}

// onOrdinary ends the ambiguous binds of an ordinary pod some time after it is bound: the scheduler's cache counts the
// request only after its own event of the pod.
func (c *core) onOrdinary(pod *v1.Pod) {
	if pod.Spec.NodeName != "" && c.flights.isAmbiguous(pod.UID) {
		c.background.spawn(func(ctx context.Context) {
			if kubepod.Complete(pod) || apiclient.Pause(ctx, lastLook) {
				c.settleBinds(pod.UID)
			}
		})
	}
}

// remembers reports whether the pod has a record. A pod without keys may still have asked for CPUs when it was bound.
func (c *core) remembers(pod *v1.Pod) bool {
	n := c.nodes.find(pod.Spec.NodeName)
	if n == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.records[pod.UID] != nil
}

// asksDifferently reports whether the keys of a pod changed. The scheduling queue ignores annotations.
func asksDifferently(old, pod *v1.Pod) bool {
	for _, key := range [...]string{
		v1alpha1.AnnotationCPUSetScheduler, v1alpha1.AnnotationCPUPolicy,
		v1alpha1.AnnotationResourceSpec, v1alpha1.AnnotationNUMATopologySpec,
	} {
		if old.Annotations[key] != pod.Annotations[key] {
			return true
		}
	}
	return false
}

// madeRoom reports whether a pod that a rule refused, for example by annotationBytes, has shorter annotations than
// before.
func (c *core) madeRoom(old, pod *v1.Pod) bool {
	return annotationBytes(pod) < annotationBytes(old) && c.queue.why(pod.UID)&refusedByRule != 0
}

// asksLate reports whether a bound pod asks for CPUs but did not before. Keys are read when a pod is created, so the
// plugin never gives it any.
func asksLate(old, pod *v1.Pod) bool {
	if old.Spec.NodeName == "" || !asksDifferently(old, pod) && old.Labels[v1alpha1.LabelQoSClass] == pod.Labels[v1alpha1.LabelQoSClass] {
		return false
	}
	before, _ := pinningOf(old)
	now, _ := pinningOf(pod)
	return now.Wanted && !before.Wanted
}

// noteLate remembers a pod that asks late. A restart loses this: the pod then counts with unknown CPUs as far as its
// namespace may have them.
func (c *core) noteLate(pod *v1.Pod) {
	c.background.log.V(2).Info("Asks for CPUs after it was bound, which means nothing", "pod", pod.Namespace+"/"+pod.Name)
	n := c.nodes.lock(pod.Spec.NodeName)
	defer n.mu.Unlock()
	if n.late == nil {
		n.late = map[types.UID]bool{}
	}
	n.late[pod.UID] = true
}

// onBound records a bound pod: from now on its placement counts, and its reservation and ambiguous binds do not.
func (c *core) onBound(before, pod *v1.Pod, ahead bool) {
	from := c.flights.end(pod.UID)
	if from.node != "" && from.node != pod.Spec.NodeName {
		c.giveUp(from.node, pod.UID) // an earlier binding went through
	}
	c.queue.done(pod.UID)
	c.tries.done(pod.UID)
	c.shortages.forget(pod.UID)
	// The scheduler forgot a pod whose binding seemed to fail, so its cache may show the pod later than the informer.
	ahead = ahead || c.flights.isAmbiguous(pod.UID)
	n := c.nodes.lock(pod.Spec.NodeName)
	freed := c.confirm(n, before, pod, from, ahead)
	n.mu.Unlock()
	c.settleBinds(pod.UID)
	if freed != 0 {
		c.queue.activate(freed)
	}
}

// confirm updates the record of a bound pod, and returns which waiting pods may profit if the pod holds less than
// before. before is the pod that the informer showed last, nil for none. The caller holds n.mu.
func (c *core) confirm(n *node, before, pod *v1.Pod, from flight, ahead bool) refusal {
	old := n.records[pod.UID]
	if old != nil && old.confirmed && old.pod == pod {
		old.foretell(ahead)
		n.weigh()
		return 0
	}
	r, pinned := c.readGiven(n, before, pod, from)
	switch {
	case !pinned && old != nil && old.confirmed && (!n.unasked[pod.UID] || bringsPlacement(pod)):
		r = *old // the keys at creation are in effect
		r.pod = pod
	case !pinned:
		freed := c.count(pod, 0)
		if n.drop(pod.UID) {
			freed |= refusedByCPUs | refusedByPromise
		}
		return freed
	}
	return c.replace(n, old, &r, ahead)
}

// replace replaces old, nil for none, with the record of a bound pod, and returns which waiting pods may profit. The
// caller holds n.mu.
func (c *core) replace(n *node, old, r *record, ahead bool) refusal {
	r.follow(old, ahead)
	pod := r.pod
	freed := c.count(pod, r.held.CPUs().Size()+r.held.Unknown())
	same := old != nil && sameHeld(&old.held, &r.held)
	if !same || !old.confirmed {
		c.watchOverlap(n, r)
	}
	if r.saysAsMuchAs(old) {
		r.sweeps = old.sweeps
		*old = *r
		n.weigh()
		return freed
	}
	n.put(pod.UID, r)
	if old != nil && !same {
		freed |= refusedByCPUs | refusedByPromise
	}
	return freed
}

// readGiven reads what a bound pod has, and whether it counts as pinned. A placement that the pod was not given has no
// CPUs. The caller holds n.mu.
func (c *core) readGiven(n *node, before, pod *v1.Pod, from flight) (r record, pinned bool) {
	r, pinned, asks := n.read(pod, from)
	given := asks || from.node != ""
	if !given && !c.flights.isAmbiguous(pod.UID) && n.forges(before, pod) {
		r, pinned = record{pod: pod}, true
	}
	if pinned {
		n.noteAsked(n.records[pod.UID], pod, given)
	}
	return r, pinned
}

// follow makes r the record of a bound pod that had the record old.
func (r *record) follow(old *record, ahead bool) {
	r.confirmed, r.sight = true, unseen
	if old != nil {
		r.reserved, r.pass = old.reserved, old.pass
		// Sightings before the bind were of the assumed pod, which may be forgotten by now.
		if old.confirmed {
			r.sight = old.sight
		}
	}
	r.foretell(ahead)
}

// foretell marks a bound pod that no snapshot had yet, if ahead reports that the next snapshots may lack it too.
func (r *record) foretell(ahead bool) {
	if ahead && r.sight == unseen {
		r.sight = foretold
	}
}

// watchOverlap reports a bound pod that has CPUs of another bound pod. Reservations do not count: their binding is
// refused, or reported when it went through. The caller holds n.mu.
func (c *core) watchOverlap(n *node, r *record) {
	o := n.others(r.pod.UID, func(other *record) bool { return other.confirmed })
	o.Overlaps = cpuset.Set{}
	if o.Add(n.machine, &r.held); !o.Overlaps.IsEmpty() {
		c.meters.overlap()
		c.background.log.Error(nil, "Two pods hold the same CPUs", "pod", r.pod.Namespace+"/"+r.pod.Name, "node", n.name)
	}
}

// count records how many CPUs a bound pod has, and returns which waiting pods may profit.
func (c *core) count(pod *v1.Pod, cpus int) refusal {
	if c.usage.set(pod.Namespace, pod.UID, int64(cpus)) {
		return refusedByCap
	}
	return 0
}

// saysAsMuchAs reports whether r changes no answer compared with old. That is usual after a change of a pod's status,
// and when a reserved placement is bound.
func (r *record) saysAsMuchAs(old *record) bool {
	return old != nil && old.holds() && old.reserved == r.reserved &&
		kubepod.Scheduled(old.pod) == kubepod.Scheduled(r.pod) &&
		kubepod.OptsIntoMoves(old.pod) == kubepod.OptsIntoMoves(r.pod) && old.held.Equal(&r.held)
}

// sameHeld compares the parts of a and b whose change can free CPUs.
func sameHeld(a, b *placement.Held) bool {
	return a.CPUs() == b.CPUs() && a.Unknown() == b.Unknown() && a.ExtraMilli() == b.ExtraMilli() && a.Resizing() == b.Resizing()
}

func (c *core) offPod(pod *v1.Pod) {
	c.queue.done(pod.UID)
	c.nodes.sums.drop(pod)
	if !kubepod.MayPin(pod) && !c.remembers(pod) {
		c.settleBinds(pod.UID)
		return
	}
	c.onGone(pod.UID, pod.Namespace)
	c.dropRecord(pod.Spec.NodeName, pod.UID)
}

// onGone forgets a pod that holds nothing any more, except its record.
func (c *core) onGone(uid types.UID, namespace string) {
	c.queue.done(uid)
	c.tries.done(uid)
	c.invalid.forget(uid)
	c.shortages.forget(uid)
	defer c.uncount(namespace, uid)
	if from := c.flights.end(uid); from.node != "" {
		c.dropRecord(from.node, uid)
	}
	c.settleBinds(uid)
}

// dropRecord drops what a pod held on a node.
func (c *core) dropRecord(name string, uid types.UID) {
	n := c.nodes.find(name)
	if n == nil {
		return
	}
	n.mu.Lock()
	r := n.records[uid]
	unseen := r != nil && r.missing()
	n.drop(uid)
	n.mu.Unlock()
	if unseen {
		// The queue's own hint may have come before the CPUs were free here.
		c.queue.activate(refusedByCPUs | refusedByPromise)
	}
}
