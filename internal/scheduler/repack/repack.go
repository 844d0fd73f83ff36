package repack

import (
	"fmt"
	"slices"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Pod is a pod that may be moved.
type Pod struct {
	Name string
	Ask  *placement.Ask
	Held placement.Held
}

// Node is the node to make room on.
type Node struct {
	// Node is the node for decisions, with the requests of all its pods.
	placement.Node
	// Fixed is what the pods that do not move hold.
	Fixed placement.Occupancy
	// Pods are the pods that may move.
	Pods []Pod
}

// Goal reports whether a node has the desired room.
type Goal func(s *alloc.Scratch, n placement.Node, o *placement.Occupancy) bool

// Room returns the goal that a pod finds room.
func Room(a *placement.Ask) Goal {
	return func(s *alloc.Scratch, n placement.Node, o *placement.Occupancy) bool {
		_, no := placement.Decide(s, n, o, a)
		return no.OK()
	}
}

// WholeL3s returns the goal that count L3 domains are wholly free.
func WholeL3s(count int) Goal {
	return func(_ *alloc.Scratch, n placement.Node, o *placement.Occupancy) bool {
		return n.WholeL3s(o) >= count
	}
}

// Bounds limit a search.
type Bounds struct {
	// Moves is the most moves of a plan.
	Moves int
	// Looks is how many moves the search may try.
	Looks int
}

// Move gives a pod other CPUs.
type Move struct {
	Pod string `json:"pod"`
	// From and To are CPU lists.
	From cpuset.Set `json:"from"`
	To   cpuset.Set `json:"to"`
}

// Plan is the result of a search.
type Plan struct {
	// Found says that Moves reach the goal.
	Found bool
	Moves []Move
	// Exact says that no plan of fewer moves exists, or if none is found, that none exists within Bounds.Moves. It is
	// false if the search ended early.
	Exact bool
}

// Reason returns the reason of a node that would accept a pod after this many moves, in the form of kube-scheduler's
// reasons: equal on all nodes that need as many moves.
func Reason(moves int) string {
	return fmt.Sprintf("node(s) fit after repack of %d move(s)", moves)
}

// Fewest returns the plan of the fewest moves that reaches the goal. It does not move a pod that is not known to be
// allowed its present CPUs.
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

// nobody is the index of no pod.
const nobody = -1

type search struct {
	node    *Node
	goal    Goal
	scratch alloc.Scratch
	left    int
	pods    []mover
	// base has the owners of CPUs that no movable pod has.
	base []int16
	seen map[[2]uint64]bool
}

// mover is a pod that may be moved.
type mover struct {
	*Pod
	// without is the node without the pod's requests.
	without placement.Node
	// origin is the pod's place at first.
	origin placement.Decision
}

// state is where the movers are after some moves.
type state struct {
	held []placement.Held
	// dropped is what each mover gave up: what it holds depends on that too.
	dropped []alloc.Dropped
	moves   []Move
}

// start returns where the pods are, and records which of them may be moved. All other pods keep their CPUs.
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

// lessOf returns the node without the requests of a pod.
func (n *Node) lessOf(a *placement.Ask) placement.Node {
	without := n.Node
	without.RequestedMilli -= a.Pod.Scheduled
	without.RequestedMemory -= a.Pod.Besides.ScheduledMemory
	without.RequestedHuge.Add(a.Pod.Besides.ScheduledHuge, -1)
	for i, count := range placement.CountDevices(n.Machine.Topology(), a.Pod.Besides.Devices) {
		without.RequestedDevices[i] -= count
	}
	return without
}

// occupancy adds up what all pods hold except but.
func (s *search) occupancy(at state, but int) placement.Occupancy {
	o := s.node.Fixed.Clone()
	for i := range at.held {
		if i != but {
			o.Add(s.node.Machine, &at.held[i])
		}
	}
	return o
}

// expand tries all moves from a state. It returns the state that reaches the goal, or adds the new states to next, and
// reports whether the search ended early.
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

// move gives a pod other CPUs, if it may have them and is no worse off, and the state is new. o is what all others
// hold.
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
