package apply

import (
	"slices"

	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
)

// Standing is the value in effect at a target. The identity may be known without the value; Err is then set.
type Standing struct {
	Value plan.Value
	ID    plan.Identity
	Err   error
}

// Read returns the values in effect at targets, in the order of targets. It writes nothing.
func (a *Applier) Read(targets []plan.Target) []Standing {
	call := a.open()
	defer call.close()
	all := make([]Standing, len(targets))
	for i, t := range targets {
		all[i].Value, all[i].ID, all[i].Err = call.read(t)
	}
	return all
}

// Stands returns the values in effect at the targets of entries, where they are Berth's (journal.Entry.IsOurs). Such a
// value is the intent of an entry or, where its write did not happen, the value before it. Stands writes nothing.
func Stands(kinds Kinds, entries []journal.Entry) map[plan.Target]plan.Value {
	call := reading(kinds, entries)
	defer call.close()
	all := map[plan.Target]plan.Value{}
	for _, e := range entries {
		if v, id, err := call.read(e.Target); err == nil && e.IsOf(call.values, id, v) && e.IsOurs(call.values, v) {
			all[e.Target] = v
		}
	}
	return all
}

// Stands calls the function Stands with the kinds of the Applier.
func (a *Applier) Stands(entries []journal.Entry) map[plan.Target]plan.Value {
	return Stands(a.kinds, entries)
}

// reading returns a call that writes nothing.
func reading(kinds Kinds, entries []journal.Entry) *call {
	entry := func(t plan.Target) (journal.Entry, bool) {
		i := slices.IndexFunc(entries, func(e journal.Entry) bool { return e.Target == t })
		if i < 0 {
			return journal.Entry{}, false
		}
		return entries[i], true
	}
	return newCall(kinds, kinds.Values(), Call{
		Written: func(plan.Target) {}, Author: func(plan.Target, plan.Value) string { return "" },
		Threads: func(t plan.Target) ([]journal.Thread, bool) {
			e, known := entry(t)
			return e.Threads, known
		},
		IsOf: func(t plan.Target, id plan.Identity) bool {
			e, known := entry(t)
			return known && e.ID == id
		},
	})
}

// Follow gives the value on record to the parts of a target that came since its write and lack it. It returns their
// number, 0 for a target that has no such parts (Follower) or no entry. Their originals are journaled before the write,
// so that Restore gives them back.
func (a *Applier) Follow(t plan.Target) (given int, err error) {
	call := a.open()
	defer call.close()
	f, follows := offers[Follower](call, t)
	entry, known := a.journal.Entry(t)
	if !follows || !known {
		return 0, nil
	}
	a.written, a.wrote = StepWritten, false
	given, err = f.Follow(t, entry.ID)
	return given, a.classify(call, t, err)
}

// Lacks reports whether a target has parts to which Follow would give the value once the target has an entry. It is
// false for a target that has no such parts (Follower). It writes nothing.
func (a *Applier) Lacks(t plan.Target) (lacks bool, err error) {
	call := a.open()
	defer call.close()
	f, follows := offers[Follower](call, t)
	if !follows {
		return false, nil
	}
	lacks, err = f.Lacks(t)
	return lacks, a.classify(call, t, err)
}
