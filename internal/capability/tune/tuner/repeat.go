package tuner

import (
	"errors"
	"fmt"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver"
	"github.com/berth-project/berth/internal/engine/plan"
)

// Repeat applies a committed profile again to units that were restarted since: their policies, slices and partitions
// end with the group of the unit. It returns these settings. A group that was not recreated still has the values of
// another program, which stay. Repeat skips a unit that does not run. The error names settings that could not be set.
// They are not tried again until the unit restarts.
func (t *Tuner) Repeat() ([]Setting, error) {
	if !t.is || t.record.Phase != Committed || !t.record.Stands(t.host.Boot) {
		return nil, nil
	}
	var ends []Setting
	var targets []plan.Target
	for _, s := range t.record.Settings {
		if driver.EndsWithUnit(s.Target) {
			ends, targets = append(ends, s), append(targets, s.Target)
		}
	}
	if err := t.free(targets); err != nil {
		return nil, err
	}
	var again []Setting
	var errs []error
	for i, now := range t.applier.Read(targets) {
		s := ends[i]
		entry, known := t.journal.Entry(s.Target)
		if now.Err != nil || !known || entry.IsOf(t.applier.Kinds(), now.ID, now.Value) {
			continue
		}
		r := t.applier.Apply([]plan.Change{{Setting: plan.Setting{
			Target: s.Target, ID: now.ID, Value: s.Value, Owner: Owner, Workload: t.record.Profile.Name,
			Why: "profile " + t.record.Profile.Name + ", which its restart had ended",
		}, From: now.Value}})[0]
		switch {
		case errors.Is(r.Err, apply.ErrGone): // stopped since the read
		case r.Err != nil:
			errs = append(errs, fmt.Errorf("%s %s: %w", s.Knob, s.Instance, r.Err))
		case r.Wrote:
			again = append(again, s)
		}
	}
	return again, errors.Join(errs...)
}
