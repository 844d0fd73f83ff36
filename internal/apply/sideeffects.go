package apply

import (
	"cmp"
	"fmt"

	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
)

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

func (a *Applier) keepThreads(t plan.Target, threads []journal.Thread) error {
	if err := a.journal.KeepThreads(t, threads); err != nil {
		return fmt.Errorf("%w: %w", ErrJournal, err)
	}
	return nil
}
