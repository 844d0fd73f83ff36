package schedule

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

const (
	// mostBest is how many nodes a pod is shown at its first try: enough to give other plugins a choice, and so few
	// that checking them costs next to nothing.
	mostBest = 16
	// mostUnknown is how many answers a walk computes because no node remembers them. If there are more, Filter
	// computes them, in parallel and for some of the nodes only.
	mostUnknown = 64
	// minority is how many nodes there must be for each node that can take pinned pods. Only then is the pod shown
	// these nodes alone.
	minority = 4
)

// Results of narrowing in the metric.
const (
	narrowedToBest = "best"
	narrowedToOpen = "open"
)

// shortlist chooses the nodes of a snapshot that a pod with exclusive CPUs is shown.
type shortlist struct {
	plugin *Plugin
	cy     *cycle
	// requests are all requests of the pod.
	requests v1.ResourceList
	// nodes is the whole snapshot, nil if it is empty.
	nodes *placeTable
}

// result returns the nodes that the pod is shown, nil for all.
//
// If Berth's answer, taints and requests alone decide about a node, the result is the best of all nodes. A plugin
// unknown to Berth may still refuse all of them. Then the pod is tried again with all nodes (tries), and until then no
// pod is evicted for it (Filter). The retry is requested in advance: the framework does not report that a cycle failed,
// and drops the request if it did not.
func (s shortlist) result() *fwk.PreFilterResult {
	if s.nodes == nil || s.cy.group {
		return nil // a group's nodes change while its pods are placed
	}
	if best := s.best(); len(best) > 0 {
		s.cy.narrowed = true
		s.plugin.core.tries.note(s.cy.pod)
		s.plugin.core.queue.activateOne(s.cy.pod)
		s.plugin.core.meters.narrow(narrowedToBest)
		return &fwk.PreFilterResult{NodeNames: sets.New(best...)}
	}
	if open := s.open(); len(open) > 0 {
		// Filter would refuse each of the other nodes for this reason.
		s.plugin.refuse(s.cy, refusedByTopology, nil)
		s.plugin.core.meters.narrow(narrowedToOpen)
		return &fwk.PreFilterResult{NodeNames: sets.New(open...)}
	}
	return nil
}

// open returns the nodes that can take pods with exclusive CPUs, nil if there are none or they are no minority. It counts
// them first: in most clusters they are no minority, and the count ends early.
func (s shortlist) open() []string {
	count, most := 0, len(s.nodes.list)/minority
	for _, n := range s.nodes.known {
		if !n.isOpen() {
			continue
		}
		if count++; count > most {
			return nil
		}
	}
	open := make([]string, 0, count)
	for _, n := range s.nodes.known {
		if n.isOpen() {
			open = append(open, n.name)
		}
	}
	return open
}

// best returns the nodes with the best answers for a pod, if nothing but these answers decides about its node. It
// returns nil if there are no such nodes, or if other plugins may decide.
func (s shortlist) best() []string {
	if len(s.nodes.list) <= mostBest || s.cy.alone {
		return nil
	}
	needs, plain := needsOf(s.cy.pod, s.requests)
	if !plain || s.othersCare() {
		return nil
	}
	first, may := s.plugin.core.tries.may(s.cy.uid, len(s.nodes.list))
	if !may {
		return nil
	}
	all, sure := s.walk(first, &needs)
	if !sure {
		return nil
	}
	names := make([]string, len(all))
	for i, one := range all {
		if len(s.plugin.handle.NominatedPodsForNode(one.Name)) > 0 {
			return nil // Filter adds these pods, and they may leave no room
		}
		names[i] = one.Name
	}
	return names
}

// walk searches all nodes, beginning at first, for the best nodes that admit the pod. sure is false if too many answers
// must be computed, or if one of the best nodes should be avoided.
func (s shortlist) walk(first int, needs *needs) (all []fwk.NodeScore, sure bool) {
	t, cy := s.nodes, s.cy
	all = make([]fwk.NodeScore, 0, mostBest+1)
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
			r = s.plugin.core.answers.resultOf(n, view{info: info, cy: cy})
		}
		if r.status != nil || len(all) == mostBest && r.score <= all[mostBest-1].Score {
			continue
		}
		switch needs.ask(info) {
		case avoids:
			return nil, false
		case admits:
			all = insert(all, fwk.NodeScore{Name: n.name, Score: r.score})
		case refuses:
		}
	}
	s.plugin.core.answers.walked.Add(uint32(len(t.list) - unknown))
	return all, true
}

// insert adds a node after those that are no worse, and drops the last if there are too many.
func insert(all []fwk.NodeScore, one fwk.NodeScore) []fwk.NodeScore {
	at := len(all)
	for at > 0 && all[at-1].Score < one.Score {
		at--
	}
	all = slices.Insert(all, at, one)
	return all[:min(len(all), mostBest)]
}
