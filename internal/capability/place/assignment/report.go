package assignment

import (
	"maps"
	"slices"

	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/inventory"
)

// events are the events to report.
type events struct {
	held []place.Event
	// unwritten are annotations of pods without an object, by UID.
	unwritten map[string]place.Event
}

// Events returns the events since the last call. An annotation comes once its pod has an object to write to: a static
// pod has none before its mirror pod is known.
func (a *Assignment) Events() []place.Event {
	a.learn()
	o := a.inventory.Obstacle()
	if o != a.reported {
		a.setFacts() // the obstacle is Lasting by now
	}
	a.holdEvents()
	gone := func(uid string) bool {
		return a.inventory.Pods.Pod(uid) == nil && !a.inventory.Containers().HasSandbox(uid)
	}
	switch {
	case !inventory.IsAlone(a.inventory):
		a.events.held = nil // the other agent reports
		return nil
	case o.IsBrief():
		a.events.forget(gone)
		return nil
	}
	return append(a.events.take(), a.events.due(a.inventory.Pods.Pod, gone)...)
}

// holdEvents fetches the events of place. While the owner of CPU sets is not known yet, place refuses pods that have,
// or get, their CPUs a moment later: holdEvents drops these refusals.
func (a *Assignment) holdEvents() {
	o := a.inventory.Obstacle()
	brief := o.IsBrief() || a.reported != o
	a.events.hold(a.node.Events(), func(n place.Event) bool { return brief && n.Unpinnable })
}

// hold stores events, except those to drop, and separately the annotations to write to pods.
func (es *events) hold(all []place.Event, drop func(place.Event) bool) {
	for i, n := range all {
		to := es.unwritten[n.PodUID]
		if n.Annotation != nil || n.Unplaced {
			to.Annotation, to.Unplaced = n.Annotation, n.Unplaced
		}
		if n.Answered {
			to.Answered, to.Refused = true, n.Refused
		}
		if to.PodUID = n.PodUID; to.Annotation != nil || to.Unplaced || to.Answered {
			es.unwritten[n.PodUID] = to
		}
		all[i].Annotation, all[i].Unplaced, all[i].Answered = nil, false, false
	}
	es.held = append(es.held, slices.DeleteFunc(all, drop)...)
}

// take returns the stored events, without annotations.
func (es *events) take() []place.Event {
	all := es.held
	es.held = nil
	return slices.DeleteFunc(all, func(n place.Event) bool { return n.Reason == "" })
}

// due returns the annotations to write now, and forgets those for removed pods.
func (es *events) due(pod func(uid string) *cluster.Pod, gone func(uid string) bool) []place.Event {
	var due []place.Event
	for _, uid := range slices.Sorted(maps.Keys(es.unwritten)) {
		switch p := pod(uid); {
		case p != nil && p.Object.UID != "":
			due = append(due, es.unwritten[uid])
			delete(es.unwritten, uid)
		case gone(uid):
			delete(es.unwritten, uid)
		}
	}
	return due
}

// forget forgets events of removed pods: pods come and go as long as nothing is reported.
func (es *events) forget(gone func(uid string) bool) {
	es.held = slices.DeleteFunc(es.held, func(n place.Event) bool { return n.PodUID != "" && gone(n.PodUID) })
	maps.DeleteFunc(es.unwritten, func(uid string, _ place.Event) bool { return gone(uid) })
}
