package cli

import (
	"fmt"
	"slices"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/profile"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/linux/knob"
)

// again applies what was committed before the last boot.
func (j *tuneJob) again() error {
	none := fmt.Errorf("apply --committed: %w: nothing was committed", tuner.ErrNotApplied)
	switch _, is, err := tuner.Load(j.host.Dir); {
	case err != nil:
		return err
	case !is:
		return none
	}
	return j.with(func(u *tuner.Tuner) error {
		record, is := u.Applied()
		if !is || record.Phase != tuner.Committed {
			return none
		}
		whole := profile.Document{Profile: record.Profile}
		plan, err := j.g.plan(whole, j.root.FS())
		if err != nil {
			return err
		}
		plan.Settings = j.leaveOut(plan.Settings)
		parts, err := j.divided(plan)
		if err != nil {
			return err
		}
		return j.write(u, tuner.Order{Profile: whole.Profile, Again: true}, plan, parts)
	})
}

// leaveOut drops settings that need memory which the host or a unit does not have now, and prints a note. After a boot
// the other settings of a profile do not wait for the memory.
func (j *tuneJob) leaveOut(all []tune.Setting) []tune.Setting {
	return slices.DeleteFunc(all, func(s tune.Setting) bool {
		out := s.Support == knob.ReadOnly && (s.Knob == tune.UnitMems || knob.IsPool(s.File))
		if out {
			printNote(j.cmd, "%s is left out: %s", s.Name(), s.Why)
		}
		return out
	})
}
