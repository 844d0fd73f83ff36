package inventory

import (
	"maps"
	"slices"

	"github.com/berth-project/berth/internal/place"
)

// Events returns what to report since the last call. What to write to a pod comes once the
// pod has an object to write to: a static pod has none before its mirror is known.
func (inv *Inventory) Events() []place.Event {
	o := inv.Obstacle()
	if o != inv.reported {
		inv.setFacts() // it has lasted by now
	}
	inv.holdEvents()
	switch {
	case inv.owner.agent != (Obstacle{}):
		inv.held = nil // the other agent reports
		return nil
	case o.unreported():
		inv.forgetEvents()
		return nil
	}
	all := inv.held
	inv.held = nil
	all = slices.DeleteFunc(all, func(n place.Event) bool { return n.Reason == "" })
	return append(all, inv.due()...)
}

// holdEvents takes what place has to report. While the owner of CPU sets is only not known
// yet, pods are refused that have, or get, their CPUs a moment later: holdEvents drops these
// refusals.
func (inv *Inventory) holdEvents() {
	o := inv.Obstacle()
	brief := o.unreported() || inv.reported != o
	all := inv.node.Events()
	for i, n := range all {
		if n.Annotation != nil || n.Unplaced {
			inv.unwritten[n.PodUID] = place.Event{PodUID: n.PodUID, Annotation: n.Annotation, Unplaced: n.Unplaced}
			all[i].Annotation, all[i].Unplaced = nil, false
		}
	}
	inv.held = append(inv.held, slices.DeleteFunc(all, func(n place.Event) bool {
		return brief && n.Unpinnable
	})...)
}

// due takes what can be written now, and forgets what never can be.
func (inv *Inventory) due() []place.Event {
	var due []place.Event
	for _, uid := range slices.Sorted(maps.Keys(inv.unwritten)) {
		switch p := inv.pods[uid]; {
		case p != nil && p.Object.UID != "":
			due = append(due, inv.unwritten[uid])
			delete(inv.unwritten, uid)
		case inv.gone(uid):
			delete(inv.unwritten, uid)
		}
	}
	return due
}

// forgetEvents forgets events of pods that are gone: pods come and go for as long as
// nothing is reported.
func (inv *Inventory) forgetEvents() {
	inv.held = slices.DeleteFunc(inv.held, func(n place.Event) bool { return n.PodUID != "" && inv.gone(n.PodUID) })
	maps.DeleteFunc(inv.unwritten, func(uid string, _ place.Event) bool { return inv.gone(uid) })
}

// gone says that neither the cluster nor the runtime has the pod.
func (inv *Inventory) gone(uid string) bool { return inv.pods[uid] == nil && !inv.hasSandbox(uid) }
