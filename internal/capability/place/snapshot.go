package place

import (
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Snapshot is the data for status, explain and the NodeTopology.
type Snapshot struct {
	// Exclusive are the exclusive CPUs of pods, with the siblings that stay empty. Offline are the CPUs of offline
	// containers, empty if these share the pool. Shared are the CPUs of all other containers.
	Exclusive, Shared, Offline cpuset.Set
	// Free are all CPUs that pods could still get: the CPUs of no pod, except efficiency cores and one whole core for
	// the shared pool. A pod may get CPUs of that core too, if another core remains instead. All further pods together
	// get no more CPUs than Free has.
	Free cpuset.Set
	// Nodes is in the order of the topology's NUMA nodes.
	Nodes         []placement.NodeFree
	Fragmentation placement.Fragmentation
	// Overcommitted says that the shared pool is overcommitted; OvercommittedText is the sentence, or empty.
	Overcommitted     bool
	OvercommittedText string
	// Rows are all known containers, by pod and name.
	Rows []Row
}

// Row is one container, as status and explain show it.
type Row struct {
	ContainerID, PodUID, Pod, Container string
	Phase                               observed.Phase
	// Has are the CPUs last seen, Desired the desired CPUs; empty if unknown, or if the container should have its CPUs
	// from before Berth.
	Has, Desired cpuset.Set
	// Borrowed are the Desired CPUs that other containers use, too.
	Borrowed cpuset.Set
	Mems     cpuset.Set
	Pinned   bool
	// Bound is Desired.Bound.
	Bound bool
	// Why is one sentence.
	Why string
	// Refused is why the pod lacks exclusive CPUs that it asks for, or tries to; empty otherwise. RefusedWord is the
	// reason in one word: NotPinnable, Rules, InvalidPolicy, or the word of a placement.Refusal.
	Refused, RefusedWord string
}

// Snapshot returns the state of the node. The caller must not change it. While nothing changes, Snapshot returns the
// same pointer.
func (n *Node) Snapshot() *Snapshot {
	n.settle()
	if n.outcome.shown == nil {
		n.outcome.shown = snapshotOf(n)
	}
	return n.outcome.shown
}

// snapshotOf computes the state of a node after a decision.
func snapshotOf(n *Node) *Snapshot {
	s := &Snapshot{Overcommitted: n.outcome.excess != "", OvercommittedText: n.outcome.excess, Rows: make([]Row, 0, len(n.Pods.where))}
	if m := n.facts.Machine; m != nil {
		node := placement.Node{Machine: m}
		s.Exclusive, s.Shared, s.Offline = n.outcome.pool.Taken, n.outcome.pool.All.Difference(n.outcome.pool.Offline), n.outcome.pool.Offline
		s.Free, s.Fragmentation = node.Free(n.outcome.pool.Taken)
		s.Nodes = placement.FreeIn(m.Topology(), s.Free)
	}
	n.Pods.each(func(p *pod, c *container) {
		row := Row{ContainerID: c.ID, PodUID: p.uid, Pod: p.key(), Container: c.Name, Phase: c.Phase, Has: c.CPUs}
		row.Refused, row.RefusedWord = p.refused(c)
		if d, found := n.outcome.desired(p, c); found {
			row.Desired, row.Borrowed, row.Mems, row.Pinned, row.Bound, row.Why = d.CPUs, d.Borrowed, d.Mems, d.Pinned, d.Bound, d.Why
		} else {
			row.Why = n.outcome.idleWhy(p, c)
		}
		s.Rows = append(s.Rows, row)
	})
	return s
}

// idleWhy returns why nothing is desired for a container.
func (o *outcome) idleWhy(p *pod, c *container) string {
	refused, _ := p.refused(c)
	switch {
	case !c.live():
		return "it is stopped"
	case refused != "":
		return "nothing is pinned on this node; no exclusive CPUs: " + refused
	case !o.open:
		return placement.TextUnpinnable(o.facts.Reason)
	default:
		return "nothing is pinned on this node"
	}
}
