package simulate

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/berth-project/berth/internal/placement"
	"github.com/berth-project/berth/internal/repack"
)

const (
	// MostMoves is how many moves a plan has at most unless it is said.
	MostMoves = 3
	// mostLooks is how many moves a search looks at: some seconds on a large machine.
	mostLooks = 50_000
	// nodesTried bounds the nodes that are searched for one pod.
	nodesTried = 4
)

// Repack is a plan that makes room on a node. Nothing carries it out.
type Repack struct {
	Node string `json:"node"`
	// Pod is the pending pod that has room afterwards, "namespace/name", and L3s how many
	// L3 domains are free as a whole then.
	Pod string `json:"pod,omitempty"`
	L3s int    `json:"l3s,omitempty"`
	// Moves come one after the other. Each gives a pod of the node other CPUs of it.
	Moves []repack.Move `json:"moves"`
}

// repackable is the node with the pods that may be moved.
func (n *node) repackable() *repack.Node {
	out := &repack.Node{Node: n.state()}
	out.Fixed.AddGiven(n.given)
	for i := range n.pinned {
		p := &n.pinned[i]
		if p.pinning.Wanted && p.pinning.Movable {
			out.Pods = append(out.Pods, repack.Pod{Name: p.name(), Ask: &p.ask, Held: p.has})
		} else {
			out.Fixed.Add(n.machine, &p.has)
		}
	}
	return out
}

// shortage returns what the node lacks for a pod that waits because of fragmentation.
func (c *Cluster) shortage(n *node, d *demand) (placement.Shortage, bool) {
	if n.closed != nil || n.machine == nil || n.fits(d) != nil {
		return placement.Shortage{}, false
	}
	_, no := placement.Decide(&c.scratch, n.state(), &n.occupancy, &d.ask)
	if never := placement.Never(&c.scratch, n.state(), &d.ask); !never.OK() {
		return placement.Shortage{}, false
	}
	return n.state().Shortage(&n.occupancy, &d.ask, no)
}

// planRepacks plans for the pods that are left, if that was asked for. Replicas to which all
// nodes say the same have the plan of the first.
func (c *Cluster) planRepacks(ctx context.Context, pending []Pending) error {
	if c.mostMoves == 0 {
		return nil
	}
	reasons := map[string]string{}
	for i, d := range c.left {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("plan for %s: %w", d.name(), err)
		}
		p := &pending[i]
		if p.SameAs != "" {
			p.Reason = reasons[p.SameAs]
			continue
		}
		var plans []Repack
		p.Repack, plans = c.repackFor(d, c.mostMoves)
		if p.Nodes = fitting(p.Nodes, plans); len(plans) > 0 && d.pod.Spec.NodeName == "" {
			p.Reason = Grouped(p.Nodes)
		}
		reasons[d.name()] = p.Reason
	}
	return nil
}

// fitting has the nodes of plans say after how many moves they would take the pod, as the
// scheduler has them with its argument sayFitsAfterRepack.
func fitting(nodes []NodeReason, plans []Repack) []NodeReason {
	nodes = slices.Clone(nodes) // replicas share them
	for i := range nodes {
		for j := range plans {
			if plans[j].Node == nodes[i].Node {
				nodes[i].Reasons = append(slices.Clip(nodes[i].Reasons), repack.Reason(len(plans[j].Moves)))
			}
		}
	}
	return nodes
}

// repackFor returns the plan of the fewest moves, at most so many, after which a node takes the
// pod: of the nodes that lack least, nil where there is none. It returns those of other nodes too
// that it found on the way.
func (c *Cluster) repackFor(d *demand, most int) (best *Repack, all []Repack) {
	if !d.pinning.Wanted || len(d.pod.Spec.SchedulingGates) > 0 {
		return nil, nil
	}
	type short struct {
		*node
		missing int
	}
	var nodes []short
	for _, n := range c.candidates(d) {
		if s, found := c.shortage(n, d); found {
			nodes = append(nodes, short{n, s.Missing})
		}
	}
	slices.SortStableFunc(nodes, func(a, b short) int { return cmp.Compare(a.missing, b.missing) })
	for _, n := range nodes[:min(len(nodes), nodesTried)] {
		plan := repack.Fewest(n.repackable(), repack.Room(&d.ask), repack.Bounds{Moves: most, Looks: mostLooks})
		if plan.Found {
			best = &Repack{Node: n.name, Pod: d.name(), Moves: plan.Moves}
			all, most = append(all, *best), len(plan.Moves)-1
		}
	}
	return best, all
}

// Repacks are plans for one node, each by itself: they are not carried out one after the
// other. Its JSON is a stable contract.
type Repacks struct {
	Node string `json:"node"`
	// Fragmentation is that before any plan.
	Fragmentation placement.Fragmentation `json:"fragmentation"`
	// Movable are the pods of the node that opted in, "namespace/name".
	Movable []string `json:"movable"`
	Plans   []Repack `json:"plans"`
	// Notes say what is not known.
	Notes []string `json:"notes"`
}

// Repacks returns for one node the plan of the fewest moves for each pod that waits for it
// because of fragmentation, and for as many whole L3 domains as so many moves can bring. It
// must be asked after Run; false is for a node that has no machine.
func (c *Cluster) Repacks(name string, moves int) (Repacks, bool) {
	n := c.node(name)
	if n == nil || n.machine == nil {
		return Repacks{}, false
	}
	from := n.repackable()
	r := Repacks{Node: name, Fragmentation: n.fragmentation(), Movable: []string{}, Plans: []Repack{}, Notes: []string{}}
	for i := range from.Pods {
		r.Movable = append(r.Movable, from.Pods[i].Name)
	}
	bounds := repack.Bounds{Moves: moves, Looks: mostLooks}
	for _, d := range c.left {
		if _, short := c.shortage(n, d); d.pinning.Wanted && short {
			r.add(Repack{Node: name, Pod: d.name()}, repack.Fewest(from, repack.Room(&d.ask), bounds))
		}
	}
	for l3s, more := r.Fragmentation.FreeL3+1, true; more; l3s++ {
		more = r.add(Repack{Node: name, L3s: l3s}, repack.Fewest(from, repack.WholeL3s(l3s), bounds))
	}
	return r, true
}

// add adds a plan, and says whether there is one. Of those for L3 domains the last counts.
func (r *Repacks) add(one Repack, plan repack.Plan) bool {
	what := one.Pod
	if what == "" {
		what = counted(one.L3s, "whole L3 domain")
	}
	if !plan.Found {
		if !plan.Exact {
			r.Notes = append(r.Notes, "not known whether there is a plan for "+what+": the search ended early")
		}
		return false
	}
	one.Moves = plan.Moves
	if last := len(r.Plans) - 1; one.Pod == "" && last >= 0 && r.Plans[last].Pod == "" {
		r.Plans = r.Plans[:last]
	}
	r.Plans = append(r.Plans, one)
	return true
}

// Text returns the plan in words, without its moves.
func (r *Repack) Text() string {
	room := "room for " + r.Pod
	if r.Pod == "" {
		room = counted(r.L3s, "whole L3 domain")
	}
	return fmt.Sprintf("node %s has %s after %s", r.Node, room, counted(len(r.Moves), "move"))
}
