package repack

import (
	"fmt"
	"slices"

	"github.com/berth-project/berth/internal/alloc"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/placement"
)

// Pod is a pod that may be moved.
type Pod struct {
	Name string
	Ask  *placement.Ask
	Held placement.Held
}

// Node is the node to make room on.
type Node struct {
	// Node is the node as decisions need it, with the requests of all its pods.
	placement.Node
	// Fixed is what the pods hold that stay where they are.
	Fixed placement.Occupancy
	// Pods are the others.
	Pods []Pod
}

// Goal says whether a node has the room that is looked for.
type Goal func(s *alloc.Scratch, n placement.Node, o *placement.Occupancy) bool

// Room is the goal that a pod finds room.
func Room(a *placement.Ask) Goal {
	return func(s *alloc.Scratch, n placement.Node, o *placement.Occupancy) bool {
		_, no := placement.Decide(s, n, o, a)
		return no.OK()
	}
}

// WholeL3s is the goal that so many L3 domains are free as a whole.
func WholeL3s(count int) Goal {
	return func(_ *alloc.Scratch, n placement.Node, o *placement.Occupancy) bool {
		return n.Fragmentation(o).FreeL3 >= count
	}
}

// Bounds end a search.
type Bounds struct {
	// Moves is the most that a plan may have.
	Moves int
	// Looks is how many moves the search may look at.
	Looks int
}

// Move gives a pod other CPUs.
type Move struct {
	Pod string `json:"pod"`
	// From and To are lists.
	From cpuset.Set `json:"from"`
	To   cpuset.Set `json:"to"`
}

// Plan is what a search found.
type Plan struct {
	// Found says that Moves reach the goal.
	Found bool
	Moves []Move
	// Exact says that no plan of fewer moves exists, or where none is found, none within
	// the bound on moves. It is false where the search ended early.
	Exact bool
}

// Reason says of a node that refuses a pod after how many moves it would take it, in the form of
// kube-scheduler's reasons: equal on all nodes that need as many.
func Reason(moves int) string {
	return fmt.Sprintf("node(s) fit after repack of %d move(s)", moves)
}

// Fewest returns the plan of the fewest moves that reaches the goal. A pod of which it is
// not known that it may have what it has is not moved.
func Fewest(n *Node, goal Goal, b Bounds) Plan {
	s := &search{node: n, goal: goal, left: b.Looks, seen: map[[2]uint64]bool{}}
	start := s.start()
	if !s.survey() {
		return Plan{}
	}
	if o := s.occupancy(start, nobody); goal(&s.scratch, n.Node, &o) {
		return Plan{Found: true, Exact: true}
	}
	s.isNew(start)
	layer := []state{start}
	for range b.Moves {
		var next []state
		for _, from := range layer {
			found, ended := s.expand(from, &next)
			if found != nil {
				return Plan{Found: true, Moves: found.moves, Exact: true}
			}
			if ended {
				return Plan{}
			}
		}
		layer = next
	}
	return Plan{Exact: true}
}

// nobody is the place of no pod.
const nobody = -1

// search is one search under way.
type search struct {
	node    *Node
	goal    Goal
	scratch alloc.Scratch
	left    int
	pods    []mover
	// base has the owners of CPUs as far as no pod that may be moved has them.
	base []int16
	seen map[[2]uint64]bool
}

// mover is a pod that may be moved.
type mover struct {
	*Pod
	// without is the node without what the pod requests.
	without placement.Node
	// origin is what it had at first.
	origin placement.Decision
}

// state is where the movers are after some moves.
type state struct {
	held []placement.Held
	// dropped is what each of them gave up: what it holds depends on that too.
	dropped []alloc.Dropped
	moves   []Move
}

// start returns where the pods are, and notes which of them may be moved. The others are
// held as they are.
func (s *search) start() state {
	var at state
	for i := range s.node.Pods {
		at.held = append(at.held, s.node.Pods[i].Held)
		s.pods = append(s.pods, mover{Pod: &s.node.Pods[i]})
	}
	at.dropped = make([]alloc.Dropped, len(at.held))
	for i := range s.pods {
		m := &s.pods[i]
		m.without = s.node.lessOf(m.Ask)
		o := s.occupancy(at, i)
		origin, no := placement.ConfirmTogether(&s.scratch, m.without, &o, m.Ask, m.Held.CPUs())
		if !no.OK() || m.Held.Unknown() > 0 || m.Held.Resizing() {
			m.Pod = nil
			continue
		}
		m.origin, at.dropped[i] = origin, origin.Answer.Dropped
	}
	return at
}

// lessOf returns the node without what a pod requests.
func (n *Node) lessOf(a *placement.Ask) placement.Node {
	without := n.Node
	without.RequestedMilli -= a.Pod.Scheduled
	without.RequestedMemory -= a.Pod.ScheduledMemory
	without.RequestedHuge.Add(a.Pod.ScheduledHuge, -1)
	for i, count := range placement.CountDevices(n.Machine.Topology(), a.Pod.Devices) {
		without.RequestedDevices[i] -= count
	}
	return without
}

// occupancy adds up what all hold but one.
func (s *search) occupancy(at state, but int) placement.Occupancy {
	o := s.node.Fixed.Clone()
	for i := range at.held {
		if i != but {
			o.Add(s.node.Machine, &at.held[i])
		}
	}
	return o
}

// expand looks at all moves from a state. It returns the state that reaches the goal, or
// adds those that were not seen yet to next, and says whether the search ended early.
func (s *search) expand(from state, next *[]state) (found *state, ended bool) {
	for i := range s.pods {
		m := &s.pods[i]
		if m.Pod == nil {
			continue
		}
		o := s.occupancy(from, i)
		for cpus := range s.targets(from, i) {
			if s.left--; s.left < 0 {
				return nil, true
			}
			to, moves := s.move(from, i, &o, cpus)
			if !moves {
				continue
			}
			if after := s.occupancy(to, nobody); s.goal(&s.scratch, s.node.Node, &after) {
				return &to, false
			}
			*next = append(*next, to)
		}
	}
	return nil, false
}

// move gives a pod other CPUs, if it may have these and is no worse off, and no state is like
// that yet. o is what all others hold.
func (s *search) move(from state, pod int, o *placement.Occupancy, cpus cpuset.Set) (to state, moves bool) {
	m := &s.pods[pod]
	d, no := placement.ConfirmTogether(&s.scratch, m.without, o, m.Ask, cpus)
	if !no.OK() || d.WorseThan(&m.origin, m.Ask) {
		return to, false
	}
	to = from.with(pod, &d, m)
	return to, s.isNew(to)
}

// with returns the state after one more move.
func (at state) with(pod int, d *placement.Decision, m *mover) state {
	to := state{held: slices.Clone(at.held), dropped: slices.Clone(at.dropped)}
	to.held[pod], to.dropped[pod] = d.Held(m.Ask), d.Answer.Dropped
	to.moves = append(slices.Clip(at.moves), Move{Pod: m.Name, From: at.held[pod].CPUs(), To: d.Answer.CPUs})
	return to
}
