package tuner

import (
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/driver"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/knob"
)

// way is the order in which phases are undone.
func way() []knob.Phase {
	return []knob.Phase{
		knob.RealTime, knob.Plain, knob.Governors, knob.Preferences, knob.Partitions, knob.Exclusives, knob.Units, knob.Budgets,
		knob.Interrupts, knob.Workqueues, knob.Slices,
	}
}

// undo puts the originals back, phase by phase, and forgets the record when all are, which it
// returns. The record says before it that an undo is under way: a commit after a kill would commit
// what is no longer there. A full disk does not hold up an undo, and neither does a disk that waits for
// threads of the kernel: these may run first, and where the record on disk is due, it is written last.
func (t *Tuner) undo(due bool) (all []apply.Restored, whole bool) {
	first := t.back(knob.RealTime)
	if t.is && !due {
		t.recordUndo()
	}
	all, again := t.pass()
	all = append(slices.DeleteFunc(first, func(r apply.Restored) bool {
		return slices.ContainsFunc(all, func(a apply.Restored) bool { return a.Entry.Target == r.Entry.Target })
	}), all...)
	for again {
		var more []apply.Restored
		more, again = t.pass()
		all = latest(all, more)
	}
	t.sayDormant(all)
	whole = isWhole(all)
	if whole && t.is {
		if t.record.Former != nil { // the host lives
			t.record.Former.Died = 0
		}
		if err := t.forget(); err != nil {
			t.notes = append(t.notes, err.Error())
			whole = false
		}
		t.host.Step("the record is gone")
	}
	if t.is && due && !whole {
		t.recordUndo()
	}
	return all, whole
}

// recordUndo is best effort.
func (t *Tuner) recordUndo() {
	t.record.Phase = Undoing
	_ = t.record.save(t.host.Dir)
	t.host.Step("an undo is recorded")
}

// undoDormant puts back what waited for its CPUs when another profile was undone, or when the one that stands was
// applied. No setting of that one has it.
func (t *Tuner) undoDormant() {
	var back []string
	for _, phase := range way() {
		for _, r := range t.applier.Restore(func(e journal.Entry) bool {
			return driver.Phase(e.Target) == phase && !slices.ContainsFunc(t.record.Settings, func(s Setting) bool { return s.Target == e.Target })
		}, false) {
			if r.Outcome == apply.OutcomeRestored {
				back = append(back, r.Entry.Target.String())
			}
		}
	}
	if len(back) > 0 {
		t.notes = append(t.notes, "went back, as its CPUs are online again: "+strings.Join(back, ", "))
	}
}

// sayDormant notes what waits for CPUs that are offline, once.
func (t *Tuner) sayDormant(all []apply.Restored) {
	var waiting []string
	for _, r := range all {
		if r.Outcome == apply.OutcomeDormant {
			waiting = append(waiting, r.Entry.Target.String())
		}
	}
	note := "waits for a CPU that is offline, and goes back with the first berth tune rollback, apply or commit after that is online: " + strings.Join(waiting, ", ")
	if len(waiting) > 0 && !slices.Contains(t.notes, note) {
		t.notes = append(t.notes, note)
	}
}

// Compare says what a rollback of a record and its entries in the journal would do, without changing
// anything, as apply.Compare does.
func Compare(h Host, a Applied, entries []journal.Entry) []apply.Restored {
	return append(apply.Compare(h.Kinds(), entries), a.since(h, entries)...)
}

// isWhole says that all is as before, as far as CPUs are online: what is dormant changes nothing, and its entry
// outlives the record.
func isWhole(all []apply.Restored) bool {
	return !slices.ContainsFunc(all, func(r apply.Restored) bool {
		return r.Outcome == apply.OutcomeDrifted || r.Outcome == apply.OutcomeFailed || r.Outcome == apply.OutcomePartly
	})
}

// pass tries every entry once, last what another program leaves alone until then, and says
// whether another pass may do better: the kernel may take a value only after one that comes
// later, as rt_period after rt_runtime.
func (t *Tuner) pass() (all []apply.Restored, again bool) {
	for _, phase := range way() {
		all = append(all, t.back(phase)...)
	}
	all = append(all, t.applier.Restore(func(e journal.Entry) bool { return driver.IsBan(e.Target) }, false)...)
	if former := t.record.Former; former == nil || !former.Outlives() {
		all = append(all, t.undoBoot()...)
	}
	has := func(o apply.Outcome) bool {
		return slices.ContainsFunc(all, func(r apply.Restored) bool { return r.Outcome == o })
	}
	return all, has(apply.OutcomeFailed) && has(apply.OutcomeRestored)
}

// back tries the entries of a phase once.
func (t *Tuner) back(phase knob.Phase) []apply.Restored {
	return t.applier.Restore(func(e journal.Entry) bool { return driver.Phase(e.Target) == phase && !driver.IsBan(e.Target) }, false)
}

// latest has the lines of an earlier pass with what a later one made of those that failed, or lacked a part.
func latest(all, later []apply.Restored) []apply.Restored {
	for _, r := range later {
		i := slices.IndexFunc(all, func(a apply.Restored) bool { return a.Entry.Target == r.Entry.Target })
		if i >= 0 && (all[i].Outcome == apply.OutcomeFailed || all[i].Outcome == apply.OutcomePartly) {
			all[i] = r
		}
	}
	return all
}
