package place

import (
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/grant"
	"github.com/berth-project/berth/internal/placement"
	"github.com/berth-project/berth/internal/topology"
)

// Snapshot is what status, explain and the NodeTopology show.
type Snapshot struct {
	// Exclusive are the exclusive CPUs of pods, with the siblings that stay empty.
	// Offline are those of offline containers, empty where these share the pool, and Shared
	// those of all other containers.
	Exclusive, Shared, Offline cpuset.Set
	// Free are the CPUs that pods could still get, all of them: those that no pod has
	// but for efficiency cores and one whole core, which stays with the shared pool. A
	// pod may get CPUs of that core too, and another core stays in its place; no pod,
	// and no pods together, get more than there are in Free.
	Free cpuset.Set
	// Nodes is by the NUMA nodes of the topology.
	Nodes         []placement.NodeFree
	Fragmentation placement.Fragmentation
	// Overcommitted says that the shared pool is; Text is the sentence, empty
	// where it is not.
	Overcommitted     bool
	OvercommittedText string
	// Rows are all containers that are known, by pod and name.
	Rows []Row
}

// Row is one container, as status and explain show it.
type Row struct {
	ContainerID, PodUID, Pod, Container string
	Phase                               Phase
	// Has is what it was last seen with, Desired what it should have; empty where
	// that is not known, or what it had before Berth.
	Has, Desired cpuset.Set
	// Borrowed are those of Desired that others use, too.
	Borrowed cpuset.Set
	Mems     cpuset.Set
	Pinned   bool
	// Bound is that of Desired.
	Bound bool
	// Why is one sentence.
	Why string
	// Refused is why the pod has no exclusive CPUs although it asks for some, or
	// tries to; empty where it has them, or does not ask. RefusedWord is the same in one
	// word: NotPinnable, Rules, InvalidPolicy, or that of a placement.Refusal.
	Refused, RefusedWord string
}

// Snapshot returns the state of the node.
func (n *Node) Snapshot() Snapshot {
	n.settle()
	s := Snapshot{Overcommitted: n.excess != "", OvercommittedText: n.excess, Rows: make([]Row, 0, len(n.where))}
	if m := n.facts.Machine; m != nil {
		t := m.Topology()
		pinnable := m.Pinnable()
		for i := range t.Cores {
			if t.Cores[i].Kind == topology.KindEfficiency {
				pinnable = pinnable.Difference(t.Cores[i].CPUs)
			}
		}
		s.Exclusive, s.Shared, s.Offline = n.pool.Taken, n.pool.All.Difference(n.pool.Offline), n.pool.Offline
		s.Free = placement.Givable(m, pinnable.Difference(n.pool.Taken), grant.Base(m).Difference(n.pool.Taken))
		taken := n.pool.Taken
		if s.Free.IsEmpty() { // what is left is the shared pool's: the machine is full
			taken = pinnable
		}
		s.Fragmentation = placement.FragmentationOf(t, pinnable, taken)
		s.Nodes = placement.FreeIn(t, s.Free)
	}
	n.each(func(p *pod, c *container) {
		row := Row{ContainerID: c.ID, PodUID: p.uid, Pod: p.key(), Container: c.Name, Phase: c.Phase, Has: c.CPUs}
		row.Refused, row.RefusedWord = p.refused(c)
		if d, found := n.desired(p, c); found {
			row.Desired, row.Borrowed, row.Mems, row.Pinned, row.Bound, row.Why = d.CPUs, d.Borrowed, d.Mems, d.Pinned, d.Bound, d.Why
		} else {
			row.Why = n.idleWhy(p, c)
		}
		s.Rows = append(s.Rows, row)
	})
	return s
}

// idleWhy says why nothing is desired for a container.
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
