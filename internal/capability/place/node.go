package place

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/observed"
)

// Node decides which containers of one node have which CPUs. Its input takes effect at the next question (Create,
// Resize, Desired, DesiredPods, Pool, Exclusive, Events, Snapshot), so the order of calls between two questions does
// not matter. After a start it needs all pods and containers before the first question. Only one goroutine may use it
// at a time.
type Node struct {
	facts Facts
	// Pods are the pods and containers of the node. The caller changes them.
	Pods Pods

	claims  claims
	scratch alloc.Scratch
	// answering is true while the decision is part of an answer to the runtime.
	answering bool
	// now is the time of the last call of Now.
	now     time.Duration
	outcome outcome
	reports reports
}

// Pods are the pods and containers of a node, as they were reported.
type Pods struct {
	pods map[string]*pod
	// where maps a container ID to its pod.
	where map[string]*pod
	// order has the pods as earlier sorts them, unless shuffled.
	order    []*pod
	shuffled bool
	// stale says that something changed since the last decision.
	stale bool
}

// New returns a Node without pods.
func New(f Facts) *Node {
	n := &Node{facts: f, Pods: Pods{pods: map[string]*pod{}, where: map[string]*pod{}, stale: true}}
	n.reports.facts = &n.facts
	return n
}

// Now sets the time of a monotonic clock. It only bounds how long a pod waits for others that leave; without it, a pod
// waits for as long as they take.
func (n *Node) Now(now time.Duration) { n.now = now }

// SetFacts replaces the facts, for example because a CPU went offline. The Node reconsiders pods that had no room.
func (n *Node) SetFacts(f Facts) {
	if n.facts.equal(&f) {
		return
	}
	n.facts, n.Pods.stale = f, true
	for _, p := range n.Pods.pods {
		p.pending = true
	}
}

// Set replaces all pods that are bound to this node, or all workloads of a host without Kubernetes, each as a pod
// with one container. Pods that are not in the list are dropped.
func (ps *Pods) Set(pods []workload.Pod) {
	listed := make(map[string]bool, len(pods))
	for _, spec := range pods {
		listed[spec.UID] = true
		ps.Put(spec)
	}
	for uid, p := range ps.pods {
		if p.known && !listed[uid] {
			ps.Drop(uid)
		}
	}
}

// Put adds a pod, or replaces what is known about it. The keys that ask for CPUs remain as they were when the pod
// was first put. While the pod is Resizing, its limits change with Resize only. A provisional pod is read again each
// time, and never replaces a pod that is not provisional.
func (ps *Pods) Put(spec workload.Pod) {
	p := ps.pod(spec.UID)
	if !p.known || !p.spec.Bound.Equal(spec.Bound) || p.spec.Provisional != spec.Provisional {
		ps.shuffled = true
	}
	p.put(spec)
	ps.stale = true
}

// Drop records that the pod is gone from the API server. The pod holds its CPUs until none of its containers runs.
func (ps *Pods) Drop(uid string) {
	if p, found := ps.pods[uid]; found {
		p.gone, ps.stale = true, true
	}
}

// SetContainers replaces all containers. A container that Create answered and that no list has shown since may still be
// on its way: the Node drops it when two lists in a row lack it.
func (ps *Pods) SetContainers(containers []observed.Container) {
	listed := make(map[string]bool, len(containers))
	for _, c := range containers {
		listed[c.ID] = true
		ps.Observe(c)
	}
	for id, p := range ps.where {
		if c := p.container(id); !listed[id] && (c.seen || c.missed) {
			ps.Remove(id)
		} else if !listed[id] {
			c.missed = true
		}
	}
}

// Observe adds a container, or replaces what is known about it.
func (ps *Pods) Observe(c observed.Container) {
	if p, found := ps.where[c.ID]; found && p.uid != c.PodUID {
		ps.Remove(c.ID)
	}
	p := ps.pod(c.PodUID)
	ps.where[c.ID] = p
	p.observe(c)
	ps.stale = true
}

// Remove records that the runtime removed a container.
func (ps *Pods) Remove(id string) {
	if p, found := ps.where[id]; found {
		p.containers = slices.DeleteFunc(p.containers, func(c *container) bool { return c.ID == id })
		delete(ps.where, id)
		ps.stale = true
	}
}

// RemovePod records that the runtime has no container of the pod left.
func (ps *Pods) RemovePod(uid string) {
	if p, found := ps.pods[uid]; found {
		for _, c := range slices.Clone(p.containers) {
			ps.Remove(c.ID)
		}
	}
}

// pod returns the pod with this UID, and adds an unknown pod if there is none.
func (ps *Pods) pod(uid string) *pod {
	p := ps.pods[uid]
	if p == nil {
		p = &pod{uid: uid, pending: true, told: published{reported: map[string]string{}}}
		ps.pods[uid] = p
		ps.order, ps.shuffled = append(ps.order, p), true
	}
	return p
}

// sorted returns all pods in the order that decides between equals: scheduled earlier, then lower UID. Pods whose
// scheduling time is not known come last.
func (ps *Pods) sorted() []*pod {
	if ps.shuffled {
		ps.shuffled = false
		slices.SortFunc(ps.order, earlier)
	}
	return ps.order
}

func earlier(a, b *pod) int {
	switch a, b := a.real(), b.real(); {
	case a && !b:
		return -1
	case b && !a:
		return 1
	}
	return cmp.Or(a.spec.Bound.Compare(b.spec.Bound), cmp.Compare(a.uid, b.uid))
}
