package tuner

import (
	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/driver"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/knob"
)

// way is the order in which phases are undone.
func way() []knob.Phase {
	return []knob.Phase{
		knob.Plain, knob.Governors, knob.Preferences, knob.Units,
		knob.Interrupts, knob.Workqueues, knob.Partitions, knob.Slices,
	}
}

// undo puts the originals back, phase by phase, and forgets the record when all are. The
// record says before it that an undo is under way: a commit meanwhile would commit what is no
// longer there. A full disk does not hold up an undo.
func (t *Tuner) undo() []apply.Restored {
	if t.is {
		t.record.Phase = Undoing
		_ = t.record.save(t.host.Dir) // best effort
		t.host.Step("an undo is recorded")
	}
	var all []apply.Restored
	for _, phase := range way() {
		all = append(all, t.applier.Restore(func(e journal.Entry) bool { return driver.Phase(e.Target) == phase }, false)...)
	}
	left := false
	for _, r := range all {
		left = left || r.Outcome == apply.OutcomeDrifted || r.Outcome == apply.OutcomeFailed
	}
	if !left && t.is {
		if err := t.forget(); err != nil {
			t.notes = append(t.notes, err.Error())
		}
		t.host.Step("the record is gone")
	}
	return all
}
