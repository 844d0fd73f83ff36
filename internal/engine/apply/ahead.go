package apply

import (
	"errors"
	"fmt"

	"github.com/berth-project/berth/internal/engine/plan"
)

// Ahead has other programs record values for objects that do not exist yet (Recorder). Such a program gives the value
// to the object when it creates the object (plan.Kind.Recurs). The value on record becomes the original; Ahead uses
// neither ID nor From of a change. It leaves out a target that exists, a target without a record, and a target whose
// object could not begin with the value (ErrRefused). There is one result for each change; Wrote reports whether the
// record was changed. Apply then finds the value in effect, and Restore restores it, whether or not the object exists.
func (a *Applier) Ahead(changes []plan.Change) []Result {
	call := a.open()
	defer call.close()
	results := make([]Result, len(changes))
	absent := make([]bool, len(changes)) // before the first change: systemd makes the group of a unit for its first list
	for i, c := range changes {
		_, _, err := call.read(c.Target)
		results[i].Change = c
		if absent[i] = errors.Is(err, ErrGone) && a.values.Recurs(c.Target); !absent[i] && err != nil {
			results[i].Err = fmt.Errorf("%s: %w", c, err)
		}
	}
	for i, c := range changes {
		if !absent[i] {
			continue
		}
		r := &results[i]
		if r.Effective, r.Wrote, r.Err = a.ahead(call, c); r.Err != nil {
			if !r.Wrote {
				c.From = r.Effective
			}
			r.Err = fmt.Errorf("%s: %w", c, r.Err)
		}
	}
	return results
}

// MayBegin returns nil if the object of a target can begin with a value, else ErrRefused with the reason (Beginner). It
// writes nothing.
func (a *Applier) MayBegin(t plan.Target, v plan.Value) error {
	call := a.open()
	defer call.close()
	return call.mayBegin(t, v)
}

// ahead makes one change of a record. It returns the value that is on record then, and whether it was changed.
func (a *Applier) ahead(call *call, c plan.Change) (has plan.Value, wrote bool, err error) {
	recorder, ok := offers[Recorder](call, c.Target)
	if !ok {
		return "", false, nil
	}
	has, recorded, err := recorder.Recorded(c.Target, c.Value)
	if err != nil || !recorded || a.values.Same(c.Target, has, c.Value) {
		return has, false, err
	}
	a.step(StepRead, c.Target)
	if err := call.mayBegin(c.Target, c.Value); err != nil {
		return has, false, err
	}
	_, known := a.journal.Entry(c.Target)
	c.ID, c.From = "", has
	if err := a.record(c, has); err != nil {
		return has, false, fmt.Errorf("%w: %w", ErrJournal, err)
	}
	if !known {
		if err := a.alone(c.Target); err != nil {
			return has, false, err
		}
	}
	if _, err := recorder.SetRecorded(c.Target, c.Value); err != nil && !errors.Is(err, ErrGone) {
		return has, true, err // perhaps: the entry stays
	}
	a.step(StepWritten, c.Target)
	if has, _, err = recorder.Recorded(c.Target, c.Value); err == nil && !a.values.Same(c.Target, has, c.Value) {
		err = fmt.Errorf("recorded %s, on record is %s: %w", c.Value, has, ErrNotEffective)
	}
	a.step(StepVerified, c.Target)
	return has, true, err
}
