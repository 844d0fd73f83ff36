package apply

import (
	"errors"
	"fmt"

	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
)

// Outcome is the result of restoring one journal entry.
type Outcome string

const (
	// OutcomeRestored means that a value of Berth's own was in effect, and the original was written and read back. In a
	// dry run, the original would be written.
	OutcomeRestored Outcome = "restored"
	// OutcomeAlready means that the original is in effect.
	OutcomeAlready Outcome = "already"
	// OutcomeDrifted means that the value in effect is neither the original nor Berth's. It was not overwritten, and
	// the entry is retained.
	OutcomeDrifted Outcome = "drifted"
	// OutcomeLeft means that the original is forgotten and the value in effect stays (Options.Leave): another writer
	// changed it, or the host accepted the original only in part.
	OutcomeLeft Outcome = "left"
	// OutcomeGone means that the target, or its identity, is gone and nothing is left to restore, not even parts that
	// outlive it (Survivor). Where its value may come back (plan.Kind.Recurs), the entry is retained until the value is
	// out of the other program's record.
	OutcomeGone Outcome = "gone"
	// OutcomeDormant means that the host does not use the value now, and that nobody can change it until the host uses
	// it again (ErrNotInForce). The entry is retained.
	OutcomeDormant Outcome = "dormant"
	// OutcomePartly means that as much of the original is in effect as is possible now: the remaining CPUs belong to a
	// partition. The entry is retained.
	OutcomePartly Outcome = "partly"
	// OutcomeFailed means that the value could not be read, or the original could not be written. Err has the reason,
	// and the entry is retained.
	OutcomeFailed Outcome = "failed"
)

// Restored is the result of restoring one journal entry.
type Restored struct {
	// Entry is the entry before the restoration.
	Entry journal.Entry
	// Outcome is how the restoration ended.
	Outcome Outcome
	// Found is the value that was in effect, "" when it could not be read.
	Found plan.Value
	// File is the file that has the value, "" when the value is in no file or could not be read.
	File string
	// Part reports that only a part of the original is possible now, where Outcome is OutcomeRestored and nothing was
	// written yet.
	Part bool
	// Texts are Found and the original in the notation of File, nil where File accepts the values themselves.
	Texts *Texts
	// Err is the reason for OutcomeFailed. With another outcome it matches ErrJournal: the host is right, only the
	// record of that is missing.
	Err error
}

// Texts are the text that a file had, and the text that restores the original there.
type Texts struct{ Found, Original string }

// Restore restores the originals of the matching entries, all when match is nil, by compare-and-swap. It returns one
// result for each entry, in the order of Journal.Entries. It needs no space in the journal. A dry run only reads.
func (a *Applier) Restore(match func(journal.Entry) bool, dryRun bool) []Restored {
	call := a.open()
	defer call.close()
	list, changes := a.waysBack(call, match)
	if dryRun {
		return list
	}
	a.putBack(call, changes, list)
	open := a.settleRecords(call, list)
	for i := range list {
		if list[i].Outcome == OutcomeAlready {
			call.giveBack(list[i].Entry.Target) // a crash may have come between the write and this step
		}
		if !open[list[i].Entry.Target] {
			a.forget(&list[i])
		}
	}
	return list
}

// PutBack writes originals as Restore does, and retains the entries for a Restore to forget. It does not wait for the
// disk before it writes a value that the host applies at once.
func (a *Applier) PutBack(match func(journal.Entry) bool) []Restored {
	call := a.open()
	defer call.close()
	list, changes := a.waysBack(call, match)
	a.putBack(call, changes, list)
	return list
}

// waysBack returns what a restoration of the matching entries would do, and the changes that it would write, in order.
func (a *Applier) waysBack(call *call, match func(journal.Entry) bool) (list []Restored, changes []plan.Change) {
	for _, e := range a.journal.Select(match) {
		r := compare(call, e)
		if r.Outcome == OutcomeRestored {
			changes = append(changes, wayBack(e, r.Found))
		}
		list = append(list, r)
	}
	return list, plan.Order(a.values, changes)
}

// wayBack returns the change from the value in effect to the original.
func wayBack(e journal.Entry, found plan.Value) plan.Change {
	return plan.Change{
		Setting: plan.Setting{
			Target: e.Target, ID: e.ID, Value: e.Original, Owner: e.Owner, Workload: e.Workload, Why: "put the original back",
		},
		From: found,
	}
}

// Compare reads the host and returns what a restoration of the entries would do, without changing anything:
// OutcomeRestored means that the original would be written, OutcomeFailed also that it could not be (Forecaster).
func Compare(kinds Kinds, entries []journal.Entry) []Restored {
	call := reading(kinds, entries)
	defer call.close()
	list := make([]Restored, 0, len(entries))
	for _, e := range entries {
		list = append(list, call.forecast(compare(call, e)))
	}
	return list
}

func compare(call *call, e journal.Entry) Restored {
	r := Restored{Entry: e}
	found, id, err := call.read(e.Target)
	switch {
	case err != nil && (id == "" || id == e.ID):
		return call.survivors(r.failed(err))
	case !e.IsOf(call.values, id, found):
		r.Outcome = OutcomeGone
		return call.survivors(r)
	}
	r.Found, r.File = found, call.locate(e.Target, found)
	r.Texts = call.encode(e.Target, found, e.Original)
	now, values := attainable(call, e), call.values
	switch {
	case e.IsOriginal(values, found):
		r.Outcome = OutcomeAlready
	case e.IsOurs(values, found):
		r.Outcome = OutcomeRestored
	case now.IsOriginal(values, found): // equivalent to the original, which was not possible
		r.Outcome = OutcomeAlready
	case now.IsOurs(values, found):
		r.Outcome = OutcomeRestored
	default:
		r.Outcome = OutcomeDrifted
	}
	if r.Outcome != OutcomeRestored { // the value to write is needed only where Berth writes
		return r
	}
	write, part := part(call, e)
	if part && values.Same(e.Target, found, write) {
		r.Outcome = OutcomePartly
		return r
	}
	if err := call.waits(e.Target, write); err != nil {
		return r.failed(err)
	}
	r.Part = part
	return r
}

// survivors changes the outcome of a target that is gone to OutcomeRestored where parts of it have to be restored.
func (c *call) survivors(r Restored) Restored {
	if r.Outcome != OutcomeGone {
		return r
	}
	found, survives, err := c.survives(r.Entry.Target)
	switch {
	case err != nil:
		return r.failed(err)
	case survives:
		r.Outcome, r.Found = OutcomeRestored, found
	}
	return r
}

// part returns the value to write now for the original, and reports whether it is only a part of the original.
func part(call *call, e journal.Entry) (write plan.Value, part bool) {
	write, stands := call.attainable(e.Target, e.Original)
	return write, !e.IsOriginal(call.values, write) && !call.values.Same(e.Target, stands, write)
}

// attainable returns the entry with its values as the host itself has changed them, because of CPUs that went offline.
func attainable(call *call, e journal.Entry) journal.Entry {
	for _, v := range []*plan.Value{&e.Original, &e.Intent, &e.Previous} {
		_, *v = call.attainable(e.Target, *v)
	}
	return e
}

// failed distinguishes a vanished group, and a value that is not in force, from a real failure.
func (r Restored) failed(err error) Restored {
	if errors.Is(err, ErrGone) {
		r.Outcome = OutcomeGone
		return r
	}
	if errors.Is(err, ErrNotInForce) {
		r.Outcome = OutcomeDormant
		return r
	}
	r.Outcome, r.Err = OutcomeFailed, fmt.Errorf("restore %s: %w", r.Entry.Target, err)
	return r
}

// putBack writes the originals in the given order and updates the list. It compares each target again right before its
// write, since the earlier writes took time.
func (a *Applier) putBack(call *call, changes []plan.Change, list []Restored) {
	at := make(map[plan.Target]*Restored, len(list))
	for i := range list {
		at[list[i].Entry.Target] = &list[i]
	}
	var failed []Result
	for _, c := range changes {
		r := at[c.Target]
		entry, known := a.journal.Entry(c.Target) // includes the intermediate value of a list that moves
		if !known {
			entry = r.Entry
		}
		now := compare(call, entry)
		now.Entry = r.Entry
		*r = now
		a.step(StepCompared, c.Target)
		if r.Outcome == OutcomeRestored {
			*r = a.putBackOne(call, *r, c, failed)
		}
		if r.Outcome == OutcomeFailed || r.Outcome == OutcomeDrifted {
			failed = append(failed, Result{Change: c, Err: r.Err})
		}
	}
}

// putBackOne writes one change of a restoration: the original, a part of it, or the intermediate value of a list that
// moves.
func (a *Applier) putBackOne(call *call, r Restored, c plan.Change, failed []Result) Restored {
	if err := a.unmet(c, failed); err != nil {
		return r.failed(err)
	}
	c.From = r.Found
	if c.Value != r.Entry.Original {
		c.Value, _ = call.attainable(c.Target, c.Value) // a union, like the original, may have CPUs of a partition
		_ = a.journal.Intend(c)                         // best effort: after a crash, Berth knows the value
	} else if write, some := part(call, r.Entry); some {
		c.Value, r.Outcome, r.Part = write, OutcomePartly, false
		if c.Owner == plan.OwnerPlace || c.Owner == plan.OwnerIsolate {
			c.Owner = plan.OwnerPool // the part is not exclusive to any group
		}
		if err := a.journal.Intend(c); err != nil { // unrecorded, the part would look like another writer's value
			return r.failed(fmt.Errorf("%w: %w", ErrJournal, err))
		}
	} else {
		c.Value = write
		a.mayBeKilled(c)
	}
	if _, _, err := a.write(call, c, StepRestored, StepRestoreVerified); err != nil {
		return r.failed(err)
	}
	return r
}

// mayBeKilled journals the change back to an original where a kill may leave that change half done.
func (a *Applier) mayBeKilled(c plan.Change) {
	if a.mayStop(c) {
		_ = a.journal.Intend(c) // best effort, as for the intermediate value of a list
	}
}

// forget drops the entry of a target that needs no further restoration.
func (a *Applier) forget(r *Restored) {
	switch r.Outcome {
	case OutcomeRestored, OutcomeAlready, OutcomeGone:
	case OutcomeDrifted:
		if !a.leave {
			return
		}
		r.Outcome = OutcomeLeft
	case OutcomeFailed:
		if !a.leave || !errors.Is(r.Err, ErrPartly) {
			return
		}
		r.Outcome, r.Err = OutcomeLeft, nil
	default:
		return
	}
	if err := a.journal.Forget(r.Entry.Target); err != nil {
		r.Err = fmt.Errorf("restore %s: %w: %w", r.Entry.Target, ErrJournal, err)
	}
	a.step(StepForgotten, r.Entry.Target)
}
