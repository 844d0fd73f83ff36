package tuner

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/driver"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/knob"
)

// way is the order in which phases are undone, but for the limits of real-time threads.
func way() []knob.Phase {
	return []knob.Phase{
		knob.Plain, knob.Governors, knob.Preferences, knob.Partitions, knob.Exclusives, knob.Units, knob.Budgets,
		knob.Interrupts, knob.Workqueues, knob.Slices,
	}
}

// undo puts the originals back, phase by phase, and forgets the record when all are, which it returns. The record says
// before it that an undo is under way, unless it is due: a commit after a kill would commit what is no longer there. A
// full disk does not hold up an undo, and neither does a disk that waits for threads of the kernel: limits of real-time
// threads go back before the first word to the disk where that tightens them, and else after all others.
func (t *Tuner) undo() (all []apply.Restored, whole bool) {
	tightens := undoTightens(t.host.Root.FS(), t.journal)
	var unrecorded error
	recorded := false
	record := func() {
		if !recorded {
			unrecorded = t.recordUndo()
			recorded = unrecorded == nil
		}
	}
	var back []apply.Restored
	if tightens {
		back = tries(func() []apply.Restored { return t.applier.PutBack(isLimit) })
	}
	if !t.record.Due(t.host.Boot, t.host.Boottime()) {
		record()
	}
	all = tries(t.pass)
	if !tightens && !isWhole(all) { // threads may have their policies still
		record()
	}
	limits := done(back, tries(t.limits))
	again := has(all, apply.OutcomeFailed) && has(limits, apply.OutcomeRestored)
	if all = latest(all, limits); again {
		all = latest(all, tries(t.pass))
	}
	t.sayDormant(all)
	if isWhole(all) {
		return all, t.forgetUndo()
	}
	record()
	if unrecorded != nil {
		t.notes = append(t.notes, fmt.Sprintf("the record of profile %s does not say that it is not wholly undone: %v", t.record.Profile.Name, unrecorded))
	}
	return all, false
}

// forgetUndo forgets the record of an undo that is whole, and reports whether that is gone. Else it is due on disk, or is
// that of what was committed before.
func (t *Tuner) forgetUndo() bool {
	if !t.is {
		return true
	}
	if t.record.Former != nil { // the host lives
		t.record.Former.Died = 0
	}
	err := t.forget()
	if err != nil {
		t.record.Phase = Undoing
		t.notes = append(t.notes, err.Error())
	}
	t.host.Step("the record is gone")
	return err == nil
}

// done has what became of the limits, of which some were put back before.
func done(before, now []apply.Restored) []apply.Restored {
	for i, r := range now {
		was := slices.ContainsFunc(before, func(b apply.Restored) bool {
			return b.Entry.Target == r.Entry.Target && b.Outcome == apply.OutcomeRestored
		})
		if was && r.Outcome == apply.OutcomeAlready {
			now[i].Outcome = apply.OutcomeRestored
		}
	}
	return now
}

// recordUndo has the record say that an undo is under way: at once, for a kill and a full disk, and then in its text. The
// error is that of a disk that has neither.
func (t *Tuner) recordUndo() error {
	if !t.is {
		return nil
	}
	t.record.Phase = Undoing
	marked := t.record.mark(t.host.Dir)
	t.host.Step("an undo is marked")
	saved := t.record.save(t.host.Dir)
	t.host.Step("an undo is recorded")
	if marked == nil || saved == nil {
		return nil
	}
	return saved
}

// undoTightens says whether the originals leave real-time threads less than what stands.
func undoTightens(tree fs.FS, j *journal.Journal) bool {
	stands := knob.LimitOf(tree)
	back := stands
	for _, e := range j.Select(isLimit) {
		back = back.With(e.Target.Object+"/"+e.Target.Knob, string(e.Original))
	}
	return back.Tightens(stands)
}

// isLimit says whether an entry is that of a limit of real-time threads.
func isLimit(e journal.Entry) bool { return driver.Phase(e.Target) == knob.RealTime }

// limits tries the limits of real-time threads once.
func (t *Tuner) limits() []apply.Restored { return t.applier.Restore(isLimit, false) }

// tries tries entries for as long as another try may do better: the kernel may take a value only after one that comes
// later, as rt_period after rt_runtime.
func tries(try func() []apply.Restored) (all []apply.Restored) {
	for again := true; again; {
		now := try()
		all, again = latest(all, now), has(now, apply.OutcomeFailed) && has(now, apply.OutcomeRestored)
	}
	return all
}

// has says whether one of these is the outcome of an entry.
func has(all []apply.Restored, o apply.Outcome) bool {
	return slices.ContainsFunc(all, func(r apply.Restored) bool { return r.Outcome == o })
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

// pass tries every other entry once, last what another program leaves alone until then.
func (t *Tuner) pass() (all []apply.Restored) {
	for _, phase := range way() {
		all = append(all, t.back(phase)...)
	}
	all = append(all, t.applier.Restore(func(e journal.Entry) bool { return driver.IsBan(e.Target) }, false)...)
	if former := t.record.Former; former == nil || !former.Outlives() {
		all = append(all, t.undoBoot()...)
	}
	return all
}

// back tries the entries of a phase once.
func (t *Tuner) back(phase knob.Phase) []apply.Restored {
	return t.applier.Restore(func(e journal.Entry) bool { return driver.Phase(e.Target) == phase && !driver.IsBan(e.Target) }, false)
}

// latest has the lines of earlier tries with what later ones made of those that failed, or lacked a part, and of others.
func latest(all, later []apply.Restored) []apply.Restored {
	for _, r := range later {
		i := slices.IndexFunc(all, func(a apply.Restored) bool { return a.Entry.Target == r.Entry.Target })
		switch {
		case i < 0:
			all = append(all, r)
		case all[i].Outcome == apply.OutcomeFailed || all[i].Outcome == apply.OutcomePartly:
			all[i] = r
		}
	}
	return all
}
