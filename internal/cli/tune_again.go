package cli

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/profile"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/engine/driver/systemd"
	"github.com/berth-project/berth/internal/linux/knob"
)

// again applies what was committed before the last boot. It succeeds if nothing was committed: nothing is missing then.
func (j *tuneJob) again() error {
	before, is, err := tuner.Load(j.host.Dir)
	switch {
	case err != nil:
		return err
	case !is: // create no state for this
		j.nothing(before)
		return nil
	}
	return j.with(func(u *tuner.Tuner) error {
		record, is := u.Applied()
		switch {
		case !is || record.Phase != tuner.Committed && j.waits(record):
			j.nothing(before)
			j.ahead(record)
			return nil
		case record.Phase != tuner.Committed:
			return inTheWay(record)
		}
		whole := profile.Document{Profile: record.Profile}
		plan, err := j.g.plan(whole, j.root.FS())
		if err != nil {
			return err
		}
		plan, stopped := plan.WithoutStopped()
		plan.Settings = j.leaveOut(plan.Settings)
		parts, err := j.divided(plan)
		if err != nil {
			return err
		}
		parts.Left = append(parts.Left, stopped...)
		return j.write(u, tuner.Order{Profile: whole.Profile, Waiting: stopped, Again: true}, plan, parts)
	})
}

// nothing makes the result say that nothing was committed, and names the profile that has ended. Systemd tries a
// failed unit again, but here no further attempt would find more.
func (j *tuneJob) nothing(before tuner.Applied) {
	j.result = appliedProfile{nothing: "nothing was committed: nothing to apply\n"}
	if name := before.Profile.Name; name != "" {
		end := "the boot ended it"
		if before.Stands(j.host.Boot) {
			end = "it is undone"
		}
		j.result.nothing = fmt.Sprintf("nothing was committed: profile %s was not, and %s\n", name, end)
	}
}

// waits reports whether a boot ended an uncommitted profile of which only boot arguments on trial remain, and no other
// profile was committed.
func (j *tuneJob) waits(record tuner.Applied) bool {
	return record.Phase == tuner.Trial && !record.Stands(j.host.Boot) && record.Former == nil
}

// inTheWay returns the error for a profile on record that is not committed.
func inTheWay(record tuner.Applied) error {
	if record.Phase != tuner.Trial {
		return fmt.Errorf("apply --committed: profile %s: %w (berth tune rollback)", record.Profile.Name, tuner.ErrLeft)
	}
	return fmt.Errorf("apply --committed: %w: %s, not committed: commit it (berth tune commit) or roll it back (berth tune rollback) first",
		tuner.ErrApplied, record.Profile.Name)
}

// newTuneAheadCommand returns the command with which a unit of the packages begins a boot.
func newTuneAheadCommand(g *globals) *cobra.Command {
	return newTuneJobCommand(g, "ahead", "Give units that do not run yet the CPUs and memory nodes of the committed profile", (*tuneJob).give)
}

// give gives units that do not run yet their part of the committed profile, and prints it.
func (j *tuneJob) give() error {
	record, is, err := tuner.Load(j.host.Dir)
	if err != nil || !is || record.Phase != tuner.Committed { // what is due may take long, and waits for apply
		return err
	}
	if j.host.Units != nil {
		patient := systemd.NewPatient()
		defer patient.Close()
		j.host.Units = patient
	}
	return j.with(func(u *tuner.Tuner) error {
		seen := len(u.Notes())
		given, err := u.Ahead()
		printNotes(j.cmd, u.Notes()[seen:])
		for _, s := range given {
			err = errors.Join(err, writeText(j.cmd.OutOrStdout(), fmt.Sprintf("%s: %s, before it starts\n", s.Name(), s.Want)))
		}
		return err
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
