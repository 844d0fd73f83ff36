package place

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/alloc"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/workload"
)

// Node decides which containers of one node have which CPUs. What it gets counts at the
// next question (Create, Resize, Desired, DesiredPods, Pool, Exclusive, Events, Snapshot),
// so the order of calls between two questions changes nothing. After a start it needs all
// pods and containers before the first question. It belongs to one goroutine at a time.
type Node struct {
	facts Facts
	pods  map[string]*pod
	// where finds the pod of a container.
	where   map[string]*pod
	scratch alloc.Scratch
	events  []Event
	// order holds the pods by the order of earlier, unless shuffled.
	order    []*pod
	shuffled bool
	// claims are the memory of settle.
	claims []claim
	// now is the time that Now was last called with.
	now time.Duration
	// stale says that something changed since the last decision.
	stale bool
	// reported is the text of the last event about the node.
	reported string
	outcome
}

// outcome is what follows from the last decision.
type outcome struct {
	// open says that CPU sets may be written, on a machine that is known.
	open bool
	// taken holds the CPUs of pinned pods, empty siblings included.
	taken cpuset.Set
	// pool is what the others have.
	pool cpuset.Set
	// first is the pinned pod that was scheduled first, nil where there is none;
	// pinned counts them.
	first  *pod
	pinned int
	// why is the sentence about every container without exclusive CPUs.
	why string
	// excess is the sentence about an overcommitted pool, empty for none.
	excess string
}

// New returns a Node without pods.
func New(f Facts) *Node {
	return &Node{facts: f, pods: map[string]*pod{}, where: map[string]*pod{}, stale: true}
}

// Now sets the time, by a monotonic clock. A pod waits for others that leave by this time
// only; without it, for as long as they take.
func (n *Node) Now(now time.Duration) { n.now = now }

// SetFacts replaces the facts, for example because a CPU went offline. Pods that
// had no room are looked at again.
func (n *Node) SetFacts(f Facts) {
	if n.facts == f {
		return
	}
	n.facts, n.stale = f, true
	for _, p := range n.pods {
		p.pending = true
	}
}

// SetPods replaces all pods that are bound to this node, or all workloads of a host
// without Kubernetes, each as a pod with one container. Those left out are dropped.
func (n *Node) SetPods(pods []workload.Pod) {
	listed := make(map[string]bool, len(pods))
	for _, spec := range pods {
		listed[spec.UID] = true
		n.PutPod(spec)
	}
	for uid, p := range n.pods {
		if p.known && !listed[uid] {
			n.DropPod(uid)
		}
	}
}

// PutPod adds a pod, or replaces what is known about it. The keys that ask for
// CPUs count as they were when it was first put, and how many CPUs a pod has
// changes with Resize only; but a provisional pod is read anew each time. A provisional one never replaces one that is not.
func (n *Node) PutPod(spec workload.Pod) {
	p := n.pod(spec.UID)
	if !p.known || !p.spec.Bound.Equal(spec.Bound) || p.spec.Provisional != spec.Provisional {
		n.shuffled = true
	}
	p.put(spec)
	n.stale = true
}

// DropPod says that the pod is gone from the API server. It holds its CPUs until
// none of its containers runs.
func (n *Node) DropPod(uid string) {
	if p, found := n.pods[uid]; found {
		p.gone, n.stale = true, true
	}
}

// SetContainers replaces all containers. One that Create answered and that no list has
// shown since may still be on its way: the Node drops it when a second list in turn lacks
// it.
func (n *Node) SetContainers(containers []Container) {
	listed := make(map[string]bool, len(containers))
	for _, c := range containers {
		listed[c.ID] = true
		n.Observe(c)
	}
	for id, p := range n.where {
		if c := p.container(id); !listed[id] && (c.seen || c.missed) {
			n.Remove(id)
		} else if !listed[id] {
			c.missed = true
		}
	}
}

// Observe adds a container, or replaces what is known about it.
func (n *Node) Observe(c Container) {
	if p, found := n.where[c.ID]; found && p.uid != c.PodUID {
		n.Remove(c.ID)
	}
	p := n.pod(c.PodUID)
	n.where[c.ID] = p
	p.observe(c)
	n.stale = true
}

// Remove says that the runtime removed a container.
func (n *Node) Remove(id string) {
	if p, found := n.where[id]; found {
		p.containers = slices.DeleteFunc(p.containers, func(c *container) bool { return c.ID == id })
		delete(n.where, id)
		n.stale = true
	}
}

// RemovePod says that the runtime has no container of the pod left.
func (n *Node) RemovePod(uid string) {
	if p, found := n.pods[uid]; found {
		for _, c := range slices.Clone(p.containers) {
			n.Remove(c.ID)
		}
	}
}

// pod returns the pod of this UID, known or not.
func (n *Node) pod(uid string) *pod {
	p := n.pods[uid]
	if p == nil {
		p = &pod{uid: uid, pending: true, reported: map[string]string{}}
		n.pods[uid] = p
		n.order, n.shuffled = append(n.order, p), true
	}
	return p
}

// sorted returns all pods by the order that decides between equals: scheduled
// earlier, then lower UID, with the provisional ones last.
func (n *Node) sorted() []*pod {
	if n.shuffled {
		n.shuffled = false
		slices.SortFunc(n.order, earlier)
	}
	return n.order
}

func earlier(a, b *pod) int {
	if a.spec.Provisional != b.spec.Provisional {
		if a.spec.Provisional {
			return 1
		}
		return -1
	}
	return cmp.Or(a.spec.Bound.Compare(b.spec.Bound), cmp.Compare(a.uid, b.uid))
}
