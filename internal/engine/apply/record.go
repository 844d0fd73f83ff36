package apply

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
)

// Record journals the originals (Change.From) and intents of changes that another writer, such as the container
// runtime, is about to make. It neither reads nor writes the host, and waits for the disk at most once: it is called
// just before an answer to the runtime. The next check shows what the runtime made of the answer. Call Note after
// Record. The error is ErrJournal; the changes must then not be made.
func (a *Applier) Record(changes []plan.Change) error {
	if err := a.journal.Record(changes, a.now()); err != nil {
		return fmt.Errorf("%w: %w", ErrJournal, err)
	}
	return nil
}

// Claim does the same as Record before the caller's own changes, whose drivers name the originals (Originator). The
// error may also be that of a driver or of Options.Held; no new entry is on record then.
func (a *Applier) Claim(changes []plan.Change) error {
	call := a.open()
	defer call.close()
	claims := slices.Clone(changes)
	var fresh []plan.Target
	for i, c := range changes {
		if e, known := a.journal.Entry(c.Target); known && e.IsOf(a.values, c.ID, c.From) {
			continue
		} else if known { // the new object gets an entry of its own
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

// alone forgets targets that were just recorded, before they are written, if another part of Berth now has an entry for
// one of them.
func (a *Applier) alone(fresh ...plan.Target) error {
	if a.held == nil {
		return nil
	}
	for _, t := range fresh {
		if err := a.held(t); err != nil {
			for _, t := range fresh {
				_ = a.journal.Forget(t) // best effort: the original is in effect; the next restore forgets the entry
			}
			return fmt.Errorf("%s: %w", t, err)
		}
	}
	return nil
}

// Note journals what the changes may cost, for targets that have an entry. It is called after Record, for changes that
// another program is about to write. The error is ErrJournal; the changes must then not be made.
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

// GiveBack gives back what was noted for a target, after another program wrote a value.
func (a *Applier) GiveBack(t plan.Target) {
	call := a.open()
	defer call.close()
	call.giveBack(t)
}

// Adopt journals values that are already in effect in groups that were created with them, as the container runtime does
// on request. Change.From is the value that the group would have had otherwise, and becomes the original. Adopt leaves
// out a change if another group now has the name, if its value is not in effect or equals Change.From, or if the target
// has an entry. It returns the number of adopted changes. The error is ErrJournal; nothing is adopted then.
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

// Limits returns which side effects of writes are permanent on this host, "" while there is no sign of any.
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
