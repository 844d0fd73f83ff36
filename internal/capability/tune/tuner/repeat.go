package tuner

import (
	"errors"
	"fmt"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver"
	"github.com/berth-project/berth/internal/engine/plan"
)

// Repeated are the settings of a committed profile that Repeat set again.
type Repeated struct {
	// Restarted are those of units that were restarted since: their policies, slices and partitions end with the group.
	Restarted []Setting
	// Followed are policies and slices that threads got which came since without them.
	Followed []Setting
}

// IsEmpty reports whether nothing was set again.
func (r Repeated) IsEmpty() bool { return len(r.Restarted)+len(r.Followed) == 0 }

// Repeat applies a committed profile again to units that were restarted since, and to new threads that inherited
// nothing. In a group that was not recreated, values of another program stay: of a thread that is on record, and of a
// thread whose policy or slice is not the default. Repeat skips a unit that does not run. The error names settings that
// could not be set. They are not tried again until the unit restarts.
func (t *Tuner) Repeat() (Repeated, error) {
	if !t.is || t.record.Phase != Committed || !t.record.Stands(t.host.Boot) {
		return Repeated{}, nil
	}
	ends, targets := t.record.endWithUnits()
	if err := t.free(targets); err != nil {
		return Repeated{}, err
	}
	var all Repeated
	var errs []error
	for i, now := range t.applier.Read(targets) {
		s := ends[i]
		entry, known := t.journal.Entry(s.Target)
		var err error
		switch {
		case now.Err != nil || !known:
		case !entry.IsOf(t.applier.Kinds(), now.ID, now.Value):
			all.Restarted, err = repeat(all.Restarted, t.applier, t.record.Profile.Name, s, now)
		case now.Value != s.Value:
			all.Followed, err = follow(all.Followed, t.applier, s)
		}
		if err != nil && !errors.Is(err, apply.ErrGone) { // else stopped since the read
			errs = append(errs, fmt.Errorf("%s %s: %w", s.Knob, s.Instance, err))
		}
	}
	return all, errors.Join(errs...)
}

// endWithUnits returns the settings that end with the groups of their units, and their targets.
func (a Applied) endWithUnits() (ends []Setting, targets []plan.Target) {
	for _, s := range a.Settings {
		if driver.EndsWithUnit(s.Target) {
			ends, targets = append(ends, s), append(targets, s.Target)
		}
	}
	return ends, targets
}

// repeat applies one setting of a profile to the new group of its unit, and adds it to the list if it wrote.
func repeat(list []Setting, a *apply.Applier, profile string, s Setting, now apply.Standing) ([]Setting, error) {
	r := a.Apply([]plan.Change{{Setting: plan.Setting{
		Target: s.Target, ID: now.ID, Value: s.Value, Owner: Owner, Workload: profile,
		Why: "profile " + profile + ", which its restart had ended",
	}, From: now.Value}})[0]
	if r.Wrote && r.Err == nil {
		list = append(list, s)
	}
	return list, r.Err
}

// follow gives one setting to new threads of its unit, and adds it to the list if a thread got it.
func follow(list []Setting, a *apply.Applier, s Setting) ([]Setting, error) {
	given, err := a.Follow(s.Target)
	if given > 0 {
		list = append(list, s)
	}
	return list, err
}
