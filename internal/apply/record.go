package apply

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
)

// Record journals the originals (Change.From) and intents of changes that another
// writer, such as the container runtime, is about to make. Nothing is read and
// nothing is written to the host, and the journal waits for the disk once at most:
// it is for the moment before an answer to the runtime. What the runtime then made
// of it is seen at the next look. Note comes after it. The error is ErrJournal, and then
// the changes must not be made.
func (a *Applier) Record(changes []plan.Change) error {
	if err := a.journal.Record(changes, a.now()); err != nil {
		return fmt.Errorf("%w: %w", ErrJournal, err)
	}
	return nil
}

// Claim does the same before changes of one's own, whose drivers say what the originals are
// (Originator). The error may be that of a driver or of Options.Held, too: then nothing of it is on record.
func (a *Applier) Claim(changes []plan.Change) error {
	call := a.open()
	defer call.close()
	claims := slices.Clone(changes)
	var fresh []plan.Target
	for i, c := range changes {
		if e, known := a.journal.Entry(c.Target); known && e.IsOf(a.values, c.ID, c.From) {
			continue
		} else if known { // its own entry comes in the place of this one
			if err := a.release(call, e); err != nil {
				return fmt.Errorf("what had the name %s before: %w", c.Target, err)
			}
		}
		fresh = append(fresh, c.Target)
		var err error
		if claims[i].From, err = call.original(c.Target, c.From); err != nil {
			return fmt.Errorf("original of %s: %w", c.Target, err)
		}
	}
	if err := a.Record(claims); err != nil {
		return err
	}
	return a.alone(fresh...)
}

// alone forgets targets that were just recorded, of which nothing is written yet, where another part of
// Berth has one of them on record by now.
func (a *Applier) alone(fresh ...plan.Target) error {
	if a.held == nil {
		return nil
	}
	for _, t := range fresh {
		if err := a.held(t); err != nil {
			for _, t := range fresh {
				_ = a.journal.Forget(t) // best effort: the original stands, and the next restore forgets it
			}
			return fmt.Errorf("%s: %w", t, err)
		}
	}
	return nil
}

// Note has what the changes may cost others journaled, of targets that have an entry:
// after Record, for what another program is about to write. The error is ErrJournal, and
// then the changes must not be made.
func (a *Applier) Note(changes []plan.Change) error {
	call := a.open()
	defer call.close()
	for _, c := range changes {
		if err := call.note(c.Target); err != nil {
			return fmt.Errorf("%s: %w", c, err)
		}
	}
	return nil
}

// GiveBack gives back what was noted of a target, for a value that another program wrote.
func (a *Applier) GiveBack(t plan.Target) {
	call := a.open()
	defer call.close()
	call.giveBack(t)
}

// Adopt journals values that stand already in groups which were made with them, as
// the container runtime does when it was asked to: Change.From is what the group
// would have had otherwise, and becomes the original. A change of a group that is
// another one by now, whose value does not stand or whose target has an entry is left out.
// It returns how many were adopted. The error is ErrJournal, with which nothing is.
func (a *Applier) Adopt(changes []plan.Change) (int, error) {
	call := a.open()
	defer call.close()
	var adopted []plan.Change
	for _, c := range changes {
		stands, err := a.observe(call, c)
		if err != nil || !a.values.Same(c.Target, stands, c.Value) || a.values.Same(c.Target, stands, c.From) {
			continue
		}
		if _, known := a.journal.Entry(c.Target); !known {
			adopted = append(adopted, c)
		}
	}
	return len(adopted), a.Record(adopted)
}

// Limits says which side effects of writes last on this host, "" while nothing speaks for
// any.
func (a *Applier) Limits() string {
	all := ""
	for _, kind := range a.kinds {
		if l, ok := kind.Opener.(Limiter); ok {
			all = cmp.Or(all, l.Limits())
		}
	}
	return all
}

func (a *Applier) threads(t plan.Target) ([]journal.Thread, bool) {
	e, known := a.journal.Entry(t)
	return e.Threads, known
}

func (a *Applier) isOf(t plan.Target, id plan.Identity) bool {
	e, known := a.journal.Entry(t)
	return known && e.ID == id
}

func (a *Applier) keepThreads(t plan.Target, threads []journal.Thread) error {
	if err := a.journal.KeepThreads(t, threads); err != nil {
		return fmt.Errorf("%w: %w", ErrJournal, err)
	}
	return nil
}
