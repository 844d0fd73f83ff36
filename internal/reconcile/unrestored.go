package reconcile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
)

// restoreAgain is how long a value that could not be put back is left alone before it
// is tried again.
const restoreAgain = 10 * time.Second

// waitsLong is how long a value may wait for its way back until the log says so: systemd, or a look at the pages
// of a group, takes its time.
const waitsLong = time.Minute

// Unrestored are the values that could not be put back. Each is reported once, as long
// as it stays the same, and tried again. The zero value is ready for use.
type Unrestored struct{ targets map[plan.Target]unrestored }

// unrestored is one value that could not be put back.
type unrestored struct {
	id      plan.Identity
	outcome apply.Outcome
	found   plan.Value
	again   time.Duration
	// unit is what systemd is to be asked for it, the one of the journal, "" for none.
	unit string
	// waits says that it is put off (apply.ErrDeferred), since when, and said that the log has it.
	waits, said bool
	since       time.Duration
}

// Due says that an entry may be tried. Another object of its name was not tried yet.
func (u *Unrestored) Due(e journal.Entry, now time.Duration) bool {
	one, known := u.targets[e.Target]
	return !known || one.id != e.ID || now >= one.again
}

// Take takes over what became of an entry, and says whether it is to be reported: the
// value could not be put back, and was not reported so before.
func (u *Unrestored) Take(r apply.Restored, now time.Duration) bool {
	before := u.targets[r.Entry.Target]
	if before.id != r.Entry.ID {
		before = unrestored{} // another object of its name
	}
	one := unrestored{id: r.Entry.ID, outcome: r.Outcome, found: r.Found, again: now + restoreAgain}
	switch {
	case errors.Is(r.Err, apply.ErrDeferred): // no failure, and no end of one: the next try has the answer
		one.outcome, one.found, one.again, one.unit = before.outcome, before.found, now, cgroupfile.Unit(r.Entry.Target)
		if one.waits, one.since, one.said = true, now, before.said; before.waits {
			one.since = before.since
		}
		u.set(r.Entry.Target, one)
		return false
	case r.Outcome == apply.OutcomeDormant || r.Outcome == apply.OutcomePartly: // what is missing nobody could have put back
		u.set(r.Entry.Target, one)
		return false
	case r.Outcome != apply.OutcomeDrifted && r.Outcome != apply.OutcomeFailed:
		delete(u.targets, r.Entry.Target)
		return false
	}
	u.set(r.Entry.Target, one)
	return before.outcome != one.outcome || before.found != one.found
}

func (u *Unrestored) set(t plan.Target, one unrestored) {
	if u.targets == nil {
		u.targets = map[plan.Target]unrestored{}
	}
	u.targets[t] = one
}

// overdue says that a value has waited for long, once, and how long.
func (u *Unrestored) overdue(t plan.Target, now time.Duration) (waited time.Duration, isNew bool) {
	one := u.targets[t]
	waited = now - one.since
	if !one.waits || one.said || waited < waitsLong {
		return 0, false
	}
	one.said = true
	u.set(t, one)
	return waited, true
}

// Forget lets a target be tried at once.
func (u *Unrestored) Forget(t plan.Target) { delete(u.targets, t) }

// Keep forgets all targets but those that are still to be put back.
func (u *Unrestored) Keep(still func(plan.Target) bool) {
	maps.DeleteFunc(u.targets, func(t plan.Target, _ unrestored) bool { return !still(t) })
}

// next is how long no target is due, at most as long as given.
func (u *Unrestored) next(now, most time.Duration) time.Duration {
	for _, one := range u.targets {
		most = min(most, max(one.again-now, 0))
	}
	return most
}

// awaits says that a list of a unit is to be put back by systemd.
func (u *Unrestored) awaits(unit string, k cgroup.Knob, still func(plan.Target) bool) bool {
	for t, one := range u.targets {
		if one.unit == unit && cgroupfile.Knob(t) == k && still(t) {
			return true
		}
	}
	return false
}

// Standing counts the values that stand in the journal of a Reconciler: those that are Berth's, or
// could not be put back yet, and those that stay, because another program wrote them since, nothing
// of them is in force, or a partition has the rest.
func Standing(r *Reconciler) (ours, others int) {
	stay := []apply.Outcome{apply.OutcomeDrifted, apply.OutcomeDormant, apply.OutcomePartly}
	for _, e := range r.opts.Journal.Entries() {
		if one, tried := r.unrestored.targets[e.Target]; tried && one.id == e.ID && slices.Contains(stay, one.outcome) {
			others++
		} else {
			ours++
		}
	}
	return ours, others
}

// restore puts back what is not desired any more. That comes after the writes: groups
// that have to leave CPUs have left by then.
func (r *Reconciler) restore() {
	if !r.stale && r.unrestored.next(r.now, reassert) > 0 {
		return
	}
	all := r.stale
	r.stale = false
	due := func(e journal.Entry) bool { return r.undesired(e) && (all || r.unrestored.Due(e, r.now)) }
	for _, res := range r.opts.Applier.Restore(due, false) {
		r.takeRestored(res)
	}
	r.unrestored.Keep(func(t plan.Target) bool {
		e, known := r.opts.Journal.Entry(t)
		return known && (r.undesired(e) || r.Quotas().unasked(e))
	})
}

// takeRestored takes over what became of an entry.
func (r *Reconciler) takeRestored(res apply.Restored) {
	if res.Outcome == apply.OutcomeRestored {
		r.report.Restored++
	}
	isNew := r.unrestored.Take(res, r.now)
	if waited, isNew := r.unrestored.overdue(res.Entry.Target, r.now); isNew {
		r.opts.Log.Warn("not back yet", "target", res.Entry.Target.String(), "original", string(res.Entry.Original),
			"waited", waited, "error", res.Err)
	}
	failed := res.Outcome == apply.OutcomeDrifted || res.Outcome == apply.OutcomeFailed
	if res.Err != nil && (isNew || !failed) && !errors.Is(res.Err, apply.ErrDeferred) {
		r.fail(res.Err)
	}
	if isNew && res.Outcome == apply.OutcomeDrifted {
		r.report.Events = append(r.report.Events, stays(res))
	}
	r.Quotas().lowestOriginal(res)
}

// stays says that another value than the original stays.
func stays(r apply.Restored) Event {
	text := fmt.Sprintf("%s is %q and stays so: Berth had %q and found %q", r.Entry.Target, r.Found, r.Entry.Intent, r.Entry.Original)
	if r.Err != nil && r.Outcome == apply.OutcomeFailed {
		text = fmt.Sprintf("%s could not be put back to %q: %v", r.Entry.Target, r.Entry.Original, r.Err)
	}
	return Event{Group: r.Entry.Target.Object, Workload: r.Entry.Workload, Reason: v1alpha1.EventHostDrift, Text: text}
}

// undesired says that an entry is of what is desired as a whole (Want) and nothing is
// desired of its target.
func (r *Reconciler) undesired(e journal.Entry) bool {
	return slices.Contains(r.opts.Owners, e.Owner) && !r.isDesired(e.Target)
}

// isDesired says that a knob of a group has a desired value.
func (r *Reconciler) isDesired(t plan.Target) bool {
	if r.singles.all[t] != nil {
		return true
	}
	o := r.objects[t.Object]
	return cgroupfile.IsGroup(t) && o != nil && o.desired.sets(cgroupfile.Knob(t))
}
