package apply

import (
	"errors"
	"fmt"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
)

// Outcome is what became of one journal entry.
type Outcome string

const (
	// OutcomeRestored says that a value of Berth's own stood and the original
	// was written back and read back. In a dry run: that it would be written.
	OutcomeRestored Outcome = "restored"
	// OutcomeAlready says that the original stands.
	OutcomeAlready Outcome = "already"
	// OutcomeDrifted says that a value stands which is neither the original
	// nor Berth's. It was not overwritten and the entry is kept.
	OutcomeDrifted Outcome = "drifted"
	// OutcomeGone says that the group, or its identity, is gone and there is
	// nothing left to restore.
	OutcomeGone Outcome = "gone"
	// OutcomeFailed says that the value could not be read, or the original not
	// be written; Err has the reason and the entry is kept.
	OutcomeFailed Outcome = "failed"
)

// Restored is what became of one journal entry.
type Restored struct {
	// Entry is the entry before the restoration.
	Entry journal.Entry
	// Outcome says how it ended.
	Outcome Outcome
	// Found is the value that stood, "" when it could not be read.
	Found cgroup.Value
	// Err is the reason for OutcomeFailed. With another outcome it matches
	// ErrJournal: the host is right, only the record that it is was not taken.
	Err error
}

// Restore puts the originals of the matching entries back, all when match is
// nil, by compare-and-swap, and returns one line for each in the order of
// Journal.Entries. It needs no space in the journal. A dry run only reads.
func (a *Applier) Restore(match func(journal.Entry) bool, dryRun bool) []Restored {
	groups := a.open()
	defer groups.close()
	var list []Restored
	var changes []plan.Change
	at := make(map[plan.Target]int)
	for _, e := range a.journal.Entries() {
		if match != nil && !match(e) {
			continue
		}
		r := Compare(groups.get, e)
		if r.Outcome == OutcomeRestored {
			at[e.Target] = len(list)
			changes = append(changes, wayBack(e, r.Found))
		}
		list = append(list, r)
	}
	if dryRun {
		return list
	}
	a.putBack(groups, plan.Order(changes), func(t plan.Target) *Restored { return &list[at[t]] })
	a.settleUnits(list)
	for i := range list {
		if g, err := groups.get(list[i].Entry.Target.Group); err == nil && list[i].Outcome == OutcomeAlready {
			a.RestoreThreads(g, list[i].Entry.Target) // a crash may have come before that
		}
		a.forget(&list[i])
	}
	return list
}

// wayBack is the change from what stands to the original.
func wayBack(e journal.Entry, found cgroup.Value) plan.Change {
	return plan.Change{
		Setting: plan.Setting{
			Target: e.Target, ID: e.ID, Unit: e.Unit, Value: e.Original, Owner: e.Owner, Workload: e.Workload, Why: "put the original back",
		},
		From: found,
	}
}

// Compare reads the host and says what a restoration of the entry would do,
// without changing anything: OutcomeRestored means that the original is to be
// written. open opens a group, as Host.Group does; the caller closes it.
func Compare(open func(path string) (*cgroup.Group, error), e journal.Entry) Restored {
	r := Restored{Entry: e}
	g, err := open(e.Target.Group)
	if err != nil {
		return r.failed(err)
	}
	id, err := g.ID(e.Target.Knob.Controller())
	if err != nil {
		return r.failed(err)
	}
	if id != e.ID {
		r.Outcome = OutcomeGone
		return r
	}
	if r.Found, err = read(g, e.Target.Knob, e.Unit); err != nil {
		return r.failed(err)
	}
	now := attainable(g, e)
	switch {
	case e.IsOriginal(r.Found):
		r.Outcome = OutcomeAlready
	case e.IsOurs(r.Found):
		r.Outcome = OutcomeRestored
	case now.IsOriginal(r.Found): // as good as the original, which could not be had
		r.Outcome = OutcomeAlready
	case now.IsOurs(r.Found):
		r.Outcome = OutcomeRestored
	default:
		r.Outcome = OutcomeDrifted
	}
	return r
}

// attainable returns the entry with its values as the kernel itself has changed
// them, because of CPUs that went offline.
func attainable(g *cgroup.Group, e journal.Entry) journal.Entry {
	e.Original = g.Attainable(e.Target.Knob, e.Original)
	e.Intent = g.Attainable(e.Target.Knob, e.Intent)
	e.Previous = g.Attainable(e.Target.Knob, e.Previous)
	return e
}

// failed tells a vanished group from a real failure.
func (r Restored) failed(err error) Restored {
	if isGone(err) {
		r.Outcome = OutcomeGone
		return r
	}
	r.Outcome, r.Err = OutcomeFailed, fmt.Errorf("restore %s: %w", r.Entry.Target, err)
	return r
}

// putBack writes the originals in the order given. Each is compared once more
// right before its write, since those before it took time.
func (a *Applier) putBack(groups *groups, changes []plan.Change, line func(plan.Target) *Restored) {
	var failed []Result
	for _, c := range changes {
		r := line(c.Target)
		entry, known := a.journal.Entry(c.Target) // with the half way of a list that moves
		if !known {
			entry = r.Entry
		}
		now := Compare(groups.get, entry)
		now.Entry = r.Entry
		*r = now
		a.step(StepCompared, c.Target)
		if r.Outcome == OutcomeRestored {
			*r = a.putBackOne(groups, *r, c, failed)
		}
		if r.Outcome == OutcomeFailed || r.Outcome == OutcomeDrifted {
			failed = append(failed, Result{Change: c, Err: r.Err})
		}
	}
}

// putBackOne makes one change of the way back: to the original, or half way there.
func (a *Applier) putBackOne(groups *groups, r Restored, c plan.Change, failed []Result) Restored {
	for _, f := range failed {
		if plan.Needs(c, f.Change) {
			return r.failed(skipped(f))
		}
	}
	g, err := groups.get(c.Group)
	if err == nil {
		c.From = r.Found
		switch c.Value {
		case cgroup.Inherit: // may be had again
		case r.Entry.Original:
			c.Value = g.Attainable(c.Knob, c.Value)
		default:
			_ = a.journal.Intend(c) // best effort: a crash right after finds a value that Berth knows
		}
	}
	if err == nil {
		_, _, err = a.write(g, c, StepRestored, StepRestoreVerified)
	}
	if err != nil {
		return r.failed(err)
	}
	return r
}

// skipped is why what needs a step that failed is not tried. One that drifted has no
// error.
func skipped(f Result) error {
	err := fmt.Errorf("%w: needs %s", ErrSkipped, f.Change)
	if f.Err != nil {
		err = fmt.Errorf("%w, which failed: %w", err, f.Err)
	}
	return err
}

// forget drops the entry of a target that needs nothing any more.
func (a *Applier) forget(r *Restored) {
	switch r.Outcome {
	case OutcomeRestored, OutcomeAlready, OutcomeGone:
	case OutcomeDrifted, OutcomeFailed:
		return
	}
	if err := a.journal.Forget(r.Entry.Target); err != nil {
		r.Err = fmt.Errorf("restore %s: %w: %w", r.Entry.Target, ErrJournal, err)
	}
	a.step(StepForgotten, r.Entry.Target)
}

// isGone reports whether an error means that the group vanished.
func isGone(err error) bool {
	return errors.Is(err, ErrGone) || errors.Is(err, cgroup.ErrNoGroup) || errors.Is(err, hostfs.ErrGone)
}
