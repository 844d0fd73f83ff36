package apply

import (
	"fmt"

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
