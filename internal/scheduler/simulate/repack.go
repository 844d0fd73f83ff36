package simulate

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/scheduler/repack"
	"github.com/berth-project/berth/internal/value/unit"
)

const (
	// MostMoves is the default maximum of moves in a plan.
	MostMoves = 3
	// mostLooks is the maximum of moves that a search tries: some seconds on a large machine.
	mostLooks = 50_000
	// nodesTried bounds the nodes that are searched for one pod.
	nodesTried = 4
)

// Repack is a plan that makes room on a node. The simulation does not execute it.
type Repack struct {
	Node string `json:"node"`
	// Pod is the pending pod that has room after the plan, "namespace/name". L3s is how many L3 domains are wholly free
	// then.
	Pod string `json:"pod,omitempty"`
	L3s int    `json:"l3s,omitempty"`
	// Moves are executed in order. Each gives a pod of the node other CPUs of the node.
	Moves []repack.Move `json:"moves"`
}

// repackable returns the node with its movable pods.
func (n *node) repackable() *repack.Node {
	out := &repack.Node{Node: n.state()}
	out.Fixed.AddGiven(n.given)
	for i := range n.pinned {
		p := &n.pinned[i]
		if p.pinning.Wanted && p.pinning.Change.Movable {
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
	state := n.state()
	_, no := placement.Decide(&c.scratch, state, &n.occupancy, &d.ask)
	if never := placement.Never(&c.scratch, state, &d.ask); !never.OK() {
		return placement.Shortage{}, false
	}
	return state.Shortage(&n.occupancy, &d.ask, no)
}

// planRepacks plans for the pods that are left, if plans were requested. A replica with SameAs has the plan of the
// first.
func (c *Cluster) planRepacks(ctx context.Context, pending []Pending) error {
	if c.mostMoves == 0 {
		return nil
	}
	reasons := map[string]string{}
	for i, d := range c.left {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("plan for %s: %w", d.name(), err)
		}
		c.tell("searched moves for", i, len(c.left), leastPlans)
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

// fitting adds to the nodes of plans after how many moves they would accept the pod, as the scheduler does with its
// argument sayFitsAfterRepack.
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

// repackFor returns the plan of the fewest moves, limited to most, after which a node accepts the pod, nil if it finds
// none. It searches the nodes that lack least, and also returns the plans of other nodes that it found on the way.
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

// Repacks are plans for one node. Each plan is separate: they are not executed one after the other. Its JSON is a
// stable contract.
type Repacks struct {
	Node string `json:"node"`
	// Fragmentation is the fragmentation before any plan.
	Fragmentation placement.Fragmentation `json:"fragmentation"`
	// Movable are the pods of the node that opted in, "namespace/name".
	Movable []string `json:"movable"`
	Plans   []Repack `json:"plans"`
	// Notes name what is unknown.
	Notes []string `json:"notes"`
}

// Repacks returns for one node the plan of the fewest moves for each pod that waits because of fragmentation there. It
// also plans for as many whole L3 domains as the given number of moves can free. It must be called after Run; it
// returns false for a node without a machine.
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
	for l3s, more := from.WholeL3s(&n.occupancy)+1, true; more; l3s++ {
		more = r.add(Repack{Node: name, L3s: l3s}, repack.Fewest(from, repack.WholeL3s(l3s), bounds))
	}
	return r, true
}

// add adds a plan, and reports whether there is one. Of the plans for L3 domains only the last remains.
func (r *Repacks) add(one Repack, plan repack.Plan) bool {
	what := one.Pod
	if what == "" {
		what = unit.Count(one.L3s, "whole L3 domain")
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
		room = unit.Count(r.L3s, "whole L3 domain")
	}
	return fmt.Sprintf("node %s has %s after %s", r.Node, room, unit.Count(len(r.Moves), "move"))
}
