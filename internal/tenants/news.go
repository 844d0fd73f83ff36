package tenants

import (
	"maps"
	"slices"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/arbiter"
	"github.com/berth-project/berth/internal/placement"
)

// News returns what is to be told since it was last asked. What is to be written to a
// pod comes once the pod has an object to write to: a static pod has none before its
// mirror is known.
func (t *Tenants) News() []arbiter.News {
	o := t.Obstacle()
	if o != t.standing {
		t.tellFacts() // it has lasted by now
	}
	t.holdNews()
	switch {
	case t.owner.agent != (Obstacle{}):
		t.held = nil // he tells
		return nil
	case o.untold():
		t.forgetNews()
		return nil
	}
	all := t.held
	t.held = nil
	all = slices.DeleteFunc(all, func(n arbiter.News) bool { return n.Reason == "" })
	return append(all, t.due()...)
}

// holdNews takes what the arbiter has to tell. While it is only not known yet who sets
// CPU sets, pods are refused that have, or get, their CPUs a moment later: of that
// nobody is told.
func (t *Tenants) holdNews() {
	o := t.Obstacle()
	brief := o.untold() || t.standing != o
	all := t.arbiter.News()
	for i, n := range all {
		if n.Annotation != nil || n.Unplaced {
			t.owed[n.PodUID] = arbiter.News{PodUID: n.PodUID, Annotation: n.Annotation, Unplaced: n.Unplaced}
			all[i].Annotation, all[i].Unplaced = nil, false
		}
	}
	t.held = append(t.held, slices.DeleteFunc(all, func(n arbiter.News) bool {
		return brief && n.Reason == v1alpha1.EventPlacementRefused && n.Text == placement.TextUnpinnable(t.standing.Message)
	})...)
}

// due takes what can be written now, and forgets what never can be.
func (t *Tenants) due() []arbiter.News {
	var due []arbiter.News
	for _, uid := range slices.Sorted(maps.Keys(t.owed)) {
		switch p := t.pods[uid]; {
		case p != nil && p.Object.UID != "":
			due = append(due, t.owed[uid])
			delete(t.owed, uid)
		case t.gone(uid):
			delete(t.owed, uid)
		}
	}
	return due
}

// forgetNews forgets what nobody can be told any more, because the pod is gone: pods
// come and go for as long as nobody is told.
func (t *Tenants) forgetNews() {
	t.held = slices.DeleteFunc(t.held, func(n arbiter.News) bool { return n.PodUID != "" && t.gone(n.PodUID) })
	maps.DeleteFunc(t.owed, func(uid string, _ arbiter.News) bool { return t.gone(uid) })
}

// gone says that neither the cluster nor the runtime has the pod.
func (t *Tenants) gone(uid string) bool { return t.pods[uid] == nil && !t.hasSandbox(uid) }
