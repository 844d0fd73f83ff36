package drift

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/berth-project/berth/internal/driver"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/tuner"
)

// ErrHeld says that a host profile has set what somebody else is about to set.
var ErrHeld = errors.New("a host profile has set it")

// Held returns what answers whether a host profile has set a target: nil for no, else ErrHeld, with the
// profile, or why that is not known. A list has one owner, who alone knows what it was: of two, the first that
// puts back what it found takes the value of the other one for a stranger's.
//
// Where the journal of profiles cannot be read, the record of what is applied answers. It is on disk before the
// first entry, names each target that may have one, and goes after the last entry; and no command changes a
// profile while it cannot read the journal. Each answer tells first whether that is so, nil for no.
func Held(stateDir, bootID string, unreadable func(error)) func(plan.Target) error {
	dir := filepath.Join(stateDir, tuner.Subdir)
	profiles := journal.NewBeside(dir, bootID, driver.Values())
	return func(t plan.Target) error {
		e, held, err := profiles.Entry(t)
		profile := e.Workload
		if err != nil {
			err = fmt.Errorf("host profiles: %w: until it can be read, by the Berth that wrote it or with other rights, lists of the profile on record are left alone", err)
		}
		unreadable(err)
		if err != nil {
			record, is, broken := tuner.Load(dir)
			if broken != nil { // whose error has advice that the journal cannot be read for
				return fmt.Errorf("%w; nor can the record: no new list is written", err)
			}
			profile, held = record.Profile.Name, is && record.Has(t, bootID)
		}
		if held {
			return fmt.Errorf("%w: %s: take it out of the profile, or berth tune rollback", ErrHeld, profile)
		}
		return nil
	}
}
