package schedule

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

const (
	// mostBest is how many nodes a pod is shown at its first try: enough for other
	// plugins to have a say, and so few that looking at them costs next to nothing.
	mostBest = 16
	// mostUnknown is how many answers a walk works out that no node remembers. Of more,
	// Filter does so, in parallel and for some of the nodes only.
	mostUnknown = 64
	// minority is the part of the nodes, one of so many, that is worth naming where no
	// others can take pods that ask for CPUs.
	minority = 4
)

// Results of narrowing, as the metric names them.
const (
	narrowedToBest = "best"
	narrowedToOpen = "open"
)

// shortlist is what a pod that asks for CPUs is shown of a snapshot's nodes.
type shortlist struct {
	*Plugin
	cy *cycle
	// nodes are all there are, nil where there are none.
	nodes *placeTable
}

// result returns the nodes that the pod is shown, nil for all.
//
// Where Berth's answer, taints and requests are all there is to ask of a node, these are
// the best of all nodes. Should that be wrong, because a plugin refuses them that this
// one does not know, the pod is tried again with all nodes (tries), and until then no pod
// is evicted for it (Filter). The retry is asked for in advance: the framework does not
// say that a cycle failed, and drops the call where it did not.
func (s shortlist) result() *fwk.PreFilterResult {
	if s.nodes == nil || s.cy.group {
		return nil // a group's nodes change while its pods are placed
	}
	if best := s.best(); len(best) > 0 {
		s.cy.narrowed = true
		s.core.tries.note(s.cy.pod)
		s.core.queue.activateOne(s.cy.pod)
		s.core.meters.narrow(narrowedToBest)
		return &fwk.PreFilterResult{NodeNames: sets.New(best...)}
	}
	if open := s.open(); len(open) > 0 {
		// As Filter would say of each of the others.
		s.refuse(s.cy, refusedByTopology, nil)
		s.core.meters.narrow(narrowedToOpen)
		return &fwk.PreFilterResult{NodeNames: sets.New(open...)}
	}
	return nil
}

// open returns the nodes that can take pods which ask for CPUs, nil where these are
// none or no minority.
func (s shortlist) open() []string {
	var open []string
	for _, n := range s.nodes.known {
		switch {
		case n == nil || n.shut.Load() != nil:
		case len(open) == len(s.nodes.list)/minority:
			return nil
		default:
			open = append(open, n.name)
		}
	}
	return open
}

// contender is one of the best nodes so far.
type contender struct {
	name  string
	score int64
}

// best returns the nodes with the best answers for a pod that others can say nothing
// about, nil where there are none or that is not known.
func (s shortlist) best() []string {
	if len(s.nodes.list) <= mostBest || s.cy.alone {
		return nil
	}
	needs, plain := needsOf(s.cy.pod)
	if !plain || s.othersCare() {
		return nil
	}
	first, may := s.core.tries.may(s.cy.uid, len(s.nodes.list))
	if !may {
		return nil
	}
	all, sure := s.walk(first, &needs)
	if !sure {
		return nil
	}
	names := make([]string, len(all))
	for i, one := range all {
		if len(s.handle.NominatedPodsForNode(one.name)) > 0 {
			return nil // Filter adds these to the node, and they may leave no room
		}
		names[i] = one.name
	}
	return names
}

// walk looks at all nodes, from the first on, for the best ones that admit the pod. It is
// not sure where too many nodes have to work out their answers, or one of the best had
// better be avoided.
func (s shortlist) walk(first int, needs *needs) (all []contender, sure bool) {
	t, cy := s.nodes, s.cy
	all = make([]contender, 0, mostBest+1)
	unknown := 0
	for i := range t.list {
		at := (first + i) % len(t.list)
		n, info := t.known[at], t.list[at]
		if n == nil {
			continue
		}
		r := n.peek(cy.moment(info), cy)
		if r == nil {
			if unknown++; unknown > mostUnknown {
				return nil, false
			}
			r = s.core.answers.resultOf(n, view{info: info, cy: cy})
		}
		if r.status != nil || len(all) == mostBest && r.score <= all[mostBest-1].score {
			continue
		}
		switch needs.ask(info) {
		case avoids:
			return nil, false
		case admits:
			all = insert(all, contender{n.name, r.score})
		case refuses:
		}
	}
	s.core.answers.walked.Add(uint32(len(t.list) - unknown))
	return all, true
}

// insert adds a contender behind those that are no worse, and drops the last of too many.
func insert(all []contender, one contender) []contender {
	at := len(all)
	for at > 0 && all[at-1].score < one.score {
		at--
	}
	all = slices.Insert(all, at, one)
	return all[:min(len(all), mostBest)]
}
