package tenants

import (
	"maps"
	"slices"

	"github.com/berth-project/berth/internal/arbiter"
)

// News returns what is to be told since it was last asked. What is to be written to a
// pod comes once the pod has an object to write to: a static pod has none before its
// mirror is known.
func (t *Tenants) News() []arbiter.News {
	all := t.arbiter.News()
	for i, n := range all {
		if n.Annotation != nil || n.Unplaced {
			t.owed[n.PodUID] = arbiter.News{PodUID: n.PodUID, Annotation: n.Annotation, Unplaced: n.Unplaced}
			all[i].Annotation, all[i].Unplaced = nil, false
		}
	}
	if t.Obstacle().Passing() {
		return nil // events are told again once it is known
	}
	all = slices.DeleteFunc(all, func(n arbiter.News) bool { return n.Reason == "" })
	return append(all, t.due()...)
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
