package inventory

import (
	"maps"
	"slices"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/place"
	"github.com/berth-project/berth/internal/placement"
)

// News returns what is to be told since it was last asked. What is to be written to a
// pod comes once the pod has an object to write to: a static pod has none before its
// mirror is known.
func (inv *Inventory) News() []place.News {
	o := inv.Obstacle()
	if o != inv.standing {
		inv.tellFacts() // it has lasted by now
	}
	inv.holdNews()
	switch {
	case inv.owner.agent != (Obstacle{}):
		inv.held = nil // he tells
		return nil
	case o.untold():
		inv.forgetNews()
		return nil
	}
	all := inv.held
	inv.held = nil
	all = slices.DeleteFunc(all, func(n place.News) bool { return n.Reason == "" })
	return append(all, inv.due()...)
}

// holdNews takes what place has to report. While it is only not known yet who sets
// CPU sets, pods are refused that have, or get, their CPUs a moment later: of that
// nobody is told.
func (inv *Inventory) holdNews() {
	o := inv.Obstacle()
	brief := o.untold() || inv.standing != o
	all := inv.node.News()
	for i, n := range all {
		if n.Annotation != nil || n.Unplaced {
			inv.owed[n.PodUID] = place.News{PodUID: n.PodUID, Annotation: n.Annotation, Unplaced: n.Unplaced}
			all[i].Annotation, all[i].Unplaced = nil, false
		}
	}
	inv.held = append(inv.held, slices.DeleteFunc(all, func(n place.News) bool {
		return brief && n.Reason == v1alpha1.EventPlacementRefused && n.Text == placement.TextUnpinnable(inv.standing.Message)
	})...)
}

// due takes what can be written now, and forgets what never can be.
func (inv *Inventory) due() []place.News {
	var due []place.News
	for _, uid := range slices.Sorted(maps.Keys(inv.owed)) {
		switch p := inv.pods[uid]; {
		case p != nil && p.Object.UID != "":
			due = append(due, inv.owed[uid])
			delete(inv.owed, uid)
		case inv.gone(uid):
			delete(inv.owed, uid)
		}
	}
	return due
}

// forgetNews forgets what nobody can be told any more, because the pod is gone: pods
// come and go for as long as nobody is told.
func (inv *Inventory) forgetNews() {
	inv.held = slices.DeleteFunc(inv.held, func(n place.News) bool { return n.PodUID != "" && inv.gone(n.PodUID) })
	maps.DeleteFunc(inv.owed, func(uid string, _ place.News) bool { return inv.gone(uid) })
}

// gone says that neither the cluster nor the runtime has the pod.
func (inv *Inventory) gone(uid string) bool { return inv.pods[uid] == nil && !inv.hasSandbox(uid) }
