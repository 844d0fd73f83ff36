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
// profile, or why the journal of profiles cannot be read. A list has one owner, who alone knows what it was:
// of two, the first that puts back what it found takes the value of the other one for a stranger's.
func Held(stateDir, bootID string) func(plan.Target) error {
	profiles := journal.NewBeside(filepath.Join(stateDir, tuner.Subdir), bootID, driver.Values())
	return func(t plan.Target) error {
		e, held, err := profiles.Entry(t)
		switch {
		case err != nil:
			return fmt.Errorf("host profiles: %w", err)
		case held:
			return fmt.Errorf("%w: %s: take it out of the profile, or berth tune rollback", ErrHeld, e.Workload)
		}
		return nil
	}
}
