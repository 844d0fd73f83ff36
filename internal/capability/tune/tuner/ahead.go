package tuner

import (
	"errors"
	"fmt"
	"slices"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver"
	"github.com/berth-project/berth/internal/engine/plan"
)

// Ahead gives systemd the CPUs and memory nodes of the committed profile for units that do not run yet, so that these
// units start with them. It also starts the slices of the profile, as partitions. It is for the beginning of a boot.
// The originals are journaled as in an apply, and an undo restores them. The record stays that of the earlier boot:
// Apply with Again writes all other settings, and finds these lists in effect.
//
// Ahead writes nothing after a boot in which no apply has ended since Ahead ran: the host may have died of the lists.
// It omits lists that the agent holds, and lists with which a unit cannot start: a note names each. The error names
// lists that systemd did not accept. All other lists are given.
func (t *Tuner) Ahead() ([]Setting, error) {
	if !t.is || t.record.Phase != Committed || t.record.Stands(t.host.Boot) || t.host.Units == nil {
		return nil, nil
	}
	if t.record.Died > 0 || t.record.Early != "" && t.record.Early != t.host.Boot {
		t.notes = append(t.notes, fmt.Sprintf("units start without the lists of profile %s: after the last boot, no apply of it ended", t.record.Profile.Name))
		return nil, nil
	}
	lists, notes := t.record.lists(t.held)
	t.notes = append(t.notes, notes...)
	var own []Setting
	if len(notes) == 0 { // else an apply leaves out the partitions, too
		own = t.record.slices()
	}
	if len(lists)+len(own) == 0 {
		return nil, nil
	}
	t.record.Early = t.host.Boot
	if err := t.record.save(t.host.Dir); err != nil {
		return nil, err
	}
	t.host.Step("the lists are announced")
	var given []Setting
	var errs []error
	unknown := make([]apply.Standing, len(lists))
	results := append(t.applier.Ahead(t.record.changesOf(lists, unknown)), startSlices(t, own)...)
	for i, s := range append(lists, own...) {
		switch r := results[i]; {
		case errors.Is(r.Err, apply.ErrRefused):
			t.notes = append(t.notes, fmt.Sprintf("%s is left out: %v", s.Name(), r.Err))
		case r.Err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", s.Name(), r.Err))
		case r.Wrote:
			given = append(given, s)
		}
	}
	return given, errors.Join(errs...)
}

// slices returns the settings of the record that are slices which Berth starts.
func (a Applied) slices() (own []Setting) {
	for _, s := range a.Settings {
		if driver.IsSlice(s.Target) {
			own = append(own, s)
		}
	}
	return own
}

// startSlices starts slices as partitions, and returns a result for each. systemd has started a slice itself if a unit
// of this boot needs it: the slice then gets its CPUs before that unit starts.
func startSlices(t *Tuner, own []Setting) []apply.Result {
	return t.applier.Apply(t.record.changesOf(own, t.applier.Read(targets(own)))) // Apply repeats an error of Read
}

// changesOf returns the changes that set settings of the profile, from the values that stand.
func (a Applied) changesOf(settings []Setting, stands []apply.Standing) []plan.Change {
	changes := make([]plan.Change, len(settings))
	for i, s := range settings {
		changes[i] = a.change(s, stands[i], "")
	}
	return changes
}

// lists returns the lists of units in the record. It leaves out both lists of a unit if the agent holds one of them, as
// an apply after a boot does, and a note names the unit.
func (a Applied) lists(held func(plan.Target) error) (lists []Setting, notes []string) {
	out := map[string]bool{} // by group
	for _, s := range slices.Concat(a.Settings, a.Waiting) {
		if !driver.IsListOfUnit(s.Target) {
			continue
		}
		lists = append(lists, s)
		if err := held(s.Target); err != nil {
			notes = append(notes, fmt.Sprintf("the lists of %s are left out: %s: %v", s.Instance, s.Knob, err))
			out[s.Target.Object] = true
		}
	}
	return slices.DeleteFunc(lists, func(s Setting) bool { return out[s.Target.Object] }), notes
}
