package reconcile

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
)

// restoreAgain is the delay before another try to restore a value.
const restoreAgain = 10 * time.Second

// waitsLong is how long a restoration may wait before the log says so: systemd, or a check of a group's pages, may be
// slow.
const waitsLong = time.Minute

// Unrestored are the values that could not be restored. Each is reported once, as long as it stays the same, and tried
// again. The zero value is ready for use.
type Unrestored struct{ targets map[plan.Target]unrestored }

// unrestored is one such value.
type unrestored struct {
	id      plan.Identity
	outcome apply.Outcome
	found   plan.Value
	again   time.Duration
	// unit is the unit that systemd must be asked for, from the journal, "" for none.
	unit string
	// waits means that the restoration is deferred (apply.ErrDeferred), since then; said means that the log has it.
	waits, said bool
	since       time.Duration
}

// Due reports whether to try an entry. Another object of the same name was not tried yet.
func (u *Unrestored) Due(e journal.Entry, now time.Duration) bool {
	one, known := u.targets[e.Target]
	return !known || one.id != e.ID || now >= one.again
}

// Take records the outcome of a restoration, and reports whether it needs a report: the value could not be restored,
// and this was not reported before.
func (u *Unrestored) Take(r apply.Restored, now time.Duration) bool {
	before := u.targets[r.Entry.Target]
	if before.id != r.Entry.ID {
		before = unrestored{} // another object of the same name
	}
	one := unrestored{id: r.Entry.ID, outcome: r.Outcome, found: r.Found, again: now + restoreAgain}
	switch {
	case errors.Is(r.Err, apply.ErrDeferred): // neither a new failure nor the end of one: the next try has the answer
		one.outcome, one.found, one.again, one.unit = before.outcome, before.found, now, cgroupfile.Unit(r.Entry.Target)
		if one.waits, one.since, one.said = true, now, before.said; before.waits {
			one.since = before.since
		}
		u.set(r.Entry.Target, one)
		return false
	case r.Outcome == apply.OutcomeDormant || r.Outcome == apply.OutcomePartly: // nobody could have restored the missing part
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

// overdue reports once that a restoration has waited for long, and how long.
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

// Forget allows the next try for a target at once.
func (u *Unrestored) Forget(t plan.Target) { delete(u.targets, t) }

// Keep forgets all targets that need no restoration any more.
func (u *Unrestored) Keep(still func(plan.Target) bool) {
	maps.DeleteFunc(u.targets, func(t plan.Target, _ unrestored) bool { return !still(t) })
}

// next returns how long no target is due, at most most.
func (u *Unrestored) next(now, most time.Duration) time.Duration {
	for _, one := range u.targets {
		most = min(most, max(one.again-now, 0))
	}
	return most
}

// awaits reports whether systemd still has to restore a list of a unit.
func (u *Unrestored) awaits(unit string, k cgroup.Knob, still func(plan.Target) bool) bool {
	for t, one := range u.targets {
		if one.unit == unit && cgroupfile.Knob(t) == k && still(t) {
			return true
		}
	}
	return false
}

// Standing is what a Reconciler leaves on the host.
type Standing struct {
	// Ours counts Berth's values in the journal, and values that could not be restored yet. Others counts those that
	// stay: another program has written them since, nothing of them is in force, or a partition has the remaining CPUs.
	Ours, Others int
}

// Standing returns what the Reconciler leaves on the host.
func (r *Reconciler) Standing() Standing {
	var all Standing
	stay := []apply.Outcome{apply.OutcomeDrifted, apply.OutcomeDormant, apply.OutcomePartly}
	for _, e := range r.opts.Journal.Entries() {
		if one, tried := r.unrestored.targets[e.Target]; tried && one.id == e.ID && slices.Contains(stay, one.outcome) {
			all.Others++
		} else {
			all.Ours++
		}
	}
	return all
}

// undesired reports whether an entry belongs to Options.Owners and its target has no desired setting.
func (r *Reconciler) undesired(e journal.Entry) bool {
	return slices.Contains(r.opts.Owners, e.Owner) && !r.isDesired(e.Target)
}

// isDesired reports whether a target has a desired value.
func (r *Reconciler) isDesired(t plan.Target) bool {
	if r.singles.all[t] != nil {
		return true
	}
	o := r.objects[t.Object]
	return cgroupfile.IsGroup(t) && o != nil && o.desired.sets(cgroupfile.Knob(t))
}
