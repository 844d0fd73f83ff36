package tuner

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/knob"
)

// way returns the order in which phases are undone, without the limits of real-time threads.
func way() []knob.Phase {
	return []knob.Phase{
		knob.Plain, knob.Governors, knob.Preferences, knob.Partitions, knob.Exclusives, knob.Units, knob.Budgets,
		knob.Interrupts, knob.Workqueues, knob.Slices,
	}
}

// undo restores the originals, phase by phase. It removes the record when all are restored, and reports whether they
// are. Unless the record is due, it first records that an undo is under way: after a kill, a commit would otherwise
// commit values that are gone. Neither a full disk nor a disk that waits for kernel threads may stop an undo. Limits of
// real-time threads are therefore restored before any disk access where that tightens them, otherwise last.
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
	if !tightens && !isWhole(all) { // threads may still have their policies
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

// forgetUndo removes the record of a complete undo, and reports whether it is gone. Otherwise the record on disk is
// due, or is that of the profile committed before.
func (t *Tuner) forgetUndo() bool {
	if !t.is {
		return true
	}
	if t.record.Former != nil { // the host is alive
		t.record.Former.Died, t.record.Former.Early = 0, ""
	}
	err := t.forget()
	if err != nil {
		t.record.Phase = Undoing
		t.notes = append(t.notes, err.Error())
	}
	t.host.Step("the record is gone")
	return err == nil
}

// done returns the outcomes of the limits, and marks limits of the first pass as restored.
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

// recordUndo records that an undo is under way: first by a mark, which survives a kill and a full disk, then in the
// text of the record. It returns an error only if both fail.
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

// undoTightens reports whether the originals leave real-time threads less time than the present limits.
func undoTightens(tree fs.FS, j *journal.Journal) bool {
	stands := knob.LimitOf(tree)
	back := stands
	for _, e := range j.Select(isLimit) {
		back = back.With(e.Target.Object+"/"+e.Target.Knob, string(e.Original))
	}
	return back.Tightens(stands)
}

func isLimit(e journal.Entry) bool { return driver.Phase(e.Target) == knob.RealTime }

// limits tries to restore the limits of real-time threads once.
func (t *Tuner) limits() []apply.Restored { return t.applier.Restore(isLimit, false) }

// tries repeats try for as long as another try may do better: the kernel may accept a value only after a later one, as
// rt_period after rt_runtime.
func tries(try func() []apply.Restored) (all []apply.Restored) {
	for again := true; again; {
		now := try()
		all, again = latest(all, now), has(now, apply.OutcomeFailed) && has(now, apply.OutcomeRestored)
	}
	return all
}

func has(all []apply.Restored, o apply.Outcome) bool {
	return slices.ContainsFunc(all, func(r apply.Restored) bool { return r.Outcome == o })
}

// undoDormant restores values that waited for offline CPUs when another profile was undone, or when the present profile
// was applied. It skips targets that the present profile sets, also those of units that do not run: Ahead gave them
// their lists.
func (t *Tuner) undoDormant() {
	ours := targets(slices.Concat(t.record.Settings, t.record.Waiting))
	var back []string
	for _, phase := range way() {
		for _, r := range t.applier.Restore(func(e journal.Entry) bool {
			return driver.Phase(e.Target) == phase && !slices.Contains(ours, e.Target)
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

// sayDormant adds one note that names the values that wait for offline CPUs.
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

// Compare reports what a rollback of a record and its journal entries would do, without changing anything, as
// apply.Compare does.
func Compare(h Host, a Applied, entries []journal.Entry) []apply.Restored {
	return append(apply.Compare(h.Kinds(), entries), a.since(h, entries)...)
}

// isWhole reports whether all is as before, as far as CPUs are online: a dormant value changes nothing, and its entry
// outlives the record.
func isWhole(all []apply.Restored) bool {
	return !slices.ContainsFunc(all, func(r apply.Restored) bool {
		return r.Outcome == apply.OutcomeDrifted || r.Outcome == apply.OutcomeFailed || r.Outcome == apply.OutcomePartly
	})
}

// pass tries every entry except the limits once. Bans come late: another program leaves a banned target alone until
// then. Writes that wait for a kernel thread, and can wait, come after the other settings of this boot: before Linux
// 6.12 they wait while real-time threads have every CPU. A governor with a thread of its own (schedutil without fast
// switch) and an isolated partition may wait, too, but later phases depend on them.
func (t *Tuner) pass() (all []apply.Restored) {
	restore := func(is func(plan.Target) bool) {
		all = append(all, t.applier.Restore(func(e journal.Entry) bool { return is(e.Target) }, false)...)
	}
	for _, phase := range way() {
		restore(func(at plan.Target) bool {
			return driver.Phase(at) == phase && !driver.IsBan(at) && !driver.WaitsForThread(at)
		})
	}
	restore(driver.IsBan)
	restore(driver.WaitsForThread)
	if former := t.record.Former; former == nil || !former.Outlives() {
		all = append(all, t.undoBoot()...)
	}
	return all
}

// latest merges two tries: a later result replaces an earlier failed or partial one, and new targets are added.
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
