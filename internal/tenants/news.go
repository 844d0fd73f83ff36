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
	t.holdNews()
	o := t.Obstacle()
	if o.brief() {
		if o.Reason == OtherAgent {
			t.held = nil // he tells
		}
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
	passing := o.brief() || t.refused != o
	all := t.arbiter.News()
	for i, n := range all {
		if n.Annotation != nil || n.Unplaced {
			t.owed[n.PodUID] = arbiter.News{PodUID: n.PodUID, Annotation: n.Annotation, Unplaced: n.Unplaced}
			all[i].Annotation, all[i].Unplaced = nil, false
		}
	}
	t.held = append(t.held, slices.DeleteFunc(all, func(n arbiter.News) bool {
		return passing && n.Reason == v1alpha1.EventPlacementRefused && n.Text == placement.TextUnpinnable(t.refused.Message)
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
		case p == nil && !t.hasSandbox(uid):
			delete(t.owed, uid)
		}
	}
	return due
}
