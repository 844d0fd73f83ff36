package place

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/alloc"
	"github.com/berth-project/berth/internal/cpuset"
)

// Node is the arbiter of one node. What it is told counts when it is next asked
// (Create, Resize, Wishes, PodWishes, Pool, Exclusive, News, Snapshot), so the order
// in which it is told things between two questions changes nothing. After a start
// it must have heard of all pods and containers before it is first asked. It
// belongs to one goroutine at a time.
type Node struct {
	facts   Facts
	tenants map[string]*tenant
	// where finds the pod of a container.
	where   map[string]*tenant
	scratch alloc.Scratch
	news    []News
	// order holds the tenants by the order of earlier, unless shuffled.
	order    []*tenant
	shuffled bool
	// claims are the memory of settle.
	claims []claim
	// now is what Now was told last.
	now time.Time
	// stale says that something was told since the last decision.
	stale bool
	// told is the text of the last news about the node.
	told string
	house
}

// house is what follows from the last decision.
type house struct {
	// open says that CPU sets may be written, on a machine that is known.
	open bool
	// taken holds the CPUs of pinned pods, empty siblings included.
	taken cpuset.Set
	// pool is what the others have.
	pool cpuset.Set
	// first is the pinned pod that was scheduled first, nil where there is none;
	// pinned counts them.
	first  *tenant
	pinned int
	// why is what is said of every container without CPUs of its own.
	why string
	// excess is the sentence about an overcommitted pool, empty for none.
	excess string
}

// New returns a Node without pods.
func New(f Facts) *Node {
	return &Node{facts: f, tenants: map[string]*tenant{}, where: map[string]*tenant{}, stale: true}
}

// Now says what time it is. A pod is made to wait for others that leave by this time
// only; where nobody tells it, for as long as they take.
func (n *Node) Now(now time.Time) { n.now = now }

// SetFacts replaces the facts, for example because a CPU went offline. Pods that
// had no room are looked at again.
func (n *Node) SetFacts(f Facts) {
	if n.facts == f {
		return
	}
	n.facts, n.stale = f, true
	for _, t := range n.tenants {
		t.pending = true
	}
}

// SetPods replaces all pods; those left out are as good as dropped.
func (n *Node) SetPods(pods []Pod) {
	listed := make(map[string]bool, len(pods))
	for _, p := range pods {
		listed[p.UID] = true
		n.PutPod(p)
	}
	for uid, t := range n.tenants {
		if t.known && !listed[uid] {
			n.DropPod(uid)
		}
	}
}

// PutPod adds a pod, or replaces what is known about it. The keys that ask for
// CPUs count as they were when it was first put, and how many CPUs a pod has
// changes with Resize only; but all that is known of a provisional pod is read
// anew each time. A provisional one never replaces one that is not.
func (n *Node) PutPod(p Pod) {
	t := n.tenant(p.UID)
	if !t.known || !t.pod.Since.Equal(p.Since) || t.pod.Provisional != p.Provisional {
		n.shuffled = true
	}
	t.put(p)
	n.stale = true
}

// DropPod says that the pod is gone from the API server. It holds its CPUs until
// none of its containers runs.
func (n *Node) DropPod(uid string) {
	if t, found := n.tenants[uid]; found {
		t.gone, n.stale = true, true
	}
}

// SetContainers replaces all containers. One that Create was asked about and
// that nobody saw since may still be on its way: it goes when a second list in
// turn lacks it.
func (n *Node) SetContainers(containers []Container) {
	listed := make(map[string]bool, len(containers))
	for _, c := range containers {
		listed[c.ID] = true
		n.Observe(c)
	}
	for id, t := range n.where {
		if c := t.container(id); !listed[id] && (c.seen || c.missed) {
			n.Remove(id)
		} else if !listed[id] {
			c.missed = true
		}
	}
}

// Observe adds a container, or replaces what is known about it.
func (n *Node) Observe(c Container) {
	if t, found := n.where[c.ID]; found && t.uid != c.PodUID {
		n.Remove(c.ID)
	}
	t := n.tenant(c.PodUID)
	n.where[c.ID] = t
	t.observe(c)
	n.stale = true
}

// Remove says that the runtime removed a container.
func (n *Node) Remove(id string) {
	if t, found := n.where[id]; found {
		t.containers = slices.DeleteFunc(t.containers, func(c *member) bool { return c.ID == id })
		delete(n.where, id)
		n.stale = true
	}
}

// RemovePod says that the runtime has no container of the pod left.
func (n *Node) RemovePod(uid string) {
	if t, found := n.tenants[uid]; found {
		for _, c := range slices.Clone(t.containers) {
			n.Remove(c.ID)
		}
	}
}

// tenant returns the pod of this UID, known or not.
func (n *Node) tenant(uid string) *tenant {
	t := n.tenants[uid]
	if t == nil {
		t = &tenant{uid: uid, pending: true, told: map[string]string{}}
		n.tenants[uid] = t
		n.order, n.shuffled = append(n.order, t), true
	}
	return t
}

// sorted returns all tenants by the order that decides between equals: scheduled
// earlier, then lower UID, with the provisional ones last.
func (n *Node) sorted() []*tenant {
	if n.shuffled {
		n.shuffled = false
		slices.SortFunc(n.order, earlier)
	}
	return n.order
}

func earlier(a, b *tenant) int {
	if a.pod.Provisional != b.pod.Provisional {
		if a.pod.Provisional {
			return 1
		}
		return -1
	}
	return cmp.Or(a.pod.Since.Compare(b.pod.Since), cmp.Compare(a.uid, b.uid))
}
