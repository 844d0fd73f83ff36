package reconcile

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
)

// restore restores the entries for which due is true, and passes each result to told. A limit that the kernel refuses
// becomes the lowest quota that it accepts. due must not read the journal, which is locked then.
func (o *Options) restore(due func(journal.Entry) bool, told func(apply.Restored)) {
	for _, res := range o.Applier.Restore(due, false) {
		told(res)
		o.lowestOriginal(res)
	}
}

// restore restores values that are not desired any more. It runs after the writes: groups that must leave CPUs have
// left by then.
func (r *Reconciler) restore() {
	if !r.stale && r.unrestored.next(r.now, reassert) > 0 {
		return
	}
	all := r.stale
	r.stale = false
	due := func(e journal.Entry) bool { return r.undesired(e) && (all || r.unrestored.Due(e, r.now)) }
	r.opts.restore(due, r.takeRestored)
	r.unrestored.Keep(func(t plan.Target) bool {
		e, known := r.opts.Journal.Entry(t)
		return known && (r.undesired(e) || !slices.Contains(r.opts.Owners, e.Owner)) // LetGo has those of other owners
	})
}

// takeRestored processes the outcome of a restoration.
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
		r.report.fail(res.Err)
	}
	if isNew && res.Outcome == apply.OutcomeDrifted {
		r.report.Events = append(r.report.Events, stays(res))
	}
}

// stays returns the event that a value other than the original stays.
func stays(r apply.Restored) Event {
	text := fmt.Sprintf("%s is %q and stays so: Berth had %q and found %q", r.Entry.Target, r.Found, r.Entry.Intent, r.Entry.Original)
	if r.Err != nil && r.Outcome == apply.OutcomeFailed {
		text = fmt.Sprintf("%s could not be put back to %q: %v", r.Entry.Target, r.Entry.Original, r.Err)
	}
	return Event{Group: r.Entry.Target.Object, Workload: r.Entry.Workload, Reason: v1alpha1.EventHostDrift, Text: text}
}

// LetGo restores the moving quotas that are unasked: the policy or the file was removed, the group was removed, or
// another group has its name. A failure is reported once and tried again.
func (all *Quotas) LetGo(now time.Duration, unasked func(journal.Entry) bool) {
	due := func(e journal.Entry) bool { return unasked(e) && all.unrestored.Due(e, now) }
	all.opts.restore(due, func(res apply.Restored) {
		if all.unrestored.Take(res, now) {
			all.opts.Report(stays(res))
		}
		if res.Outcome != apply.OutcomeDrifted && res.Outcome != apply.OutcomeFailed {
			all.opts.Log.Info("let go", "target", res.Entry.Target.String(), "outcome", string(res.Outcome),
				"original", string(res.Entry.Original))
		}
	})
	all.unrestored.Keep(func(t plan.Target) bool {
		_, known := all.opts.Journal.Entry(t)
		return known
	})
}

// Retry makes the next LetGo retry the failed restorations of a group at once.
func (all *Watch) Retry(group string) {
	for _, k := range []cgroup.Knob{cgroup.KnobMax, cgroup.KnobBurst} {
		all.unrestored.Forget(cgroupfile.Target(group, k))
	}
}

// Leave restores the matching values at the end of an agent, and counts the values that stay as they are. Another
// writer changed the drifted values; the kernel or the disk refused the failed values.
func (all *Quotas) Leave(of func(journal.Entry) bool) (drifted, failed int) {
	all.opts.restore(of, func(res apply.Restored) {
		switch res.Outcome {
		case apply.OutcomeDrifted:
			drifted++
		case apply.OutcomeFailed:
			failed++
		case apply.OutcomeRestored, apply.OutcomeAlready, apply.OutcomeGone:
			return
		}
		all.opts.Log.Warn("not put back", "target", res.Entry.Target.String(), "outcome", string(res.Outcome),
			"found", string(res.Found), "error", res.Err)
	})
	return drifted, failed
}

// because says why a limit is not in force.
func because(blocker string) string {
	return "the kernel does not take the limit because of " + blocker
}

// lowest follows a failed restoration of a limit. The kernel refuses a quota below the burst in force and, on cgroup
// v1, a quota whose ratio is below a child's; both may be another writer's. lowest writes the lowest accepted quota.
// The blocker is the value in the way, "" if nothing can be gained.
func (o *Options) lowest(refused plan.Change) (res apply.Result, blocker string) {
	group, err := o.Host.Group(refused.Object)
	if err != nil {
		return res, "" // the group is gone: the next check reports it
	}
	defer group.Close()
	lowest, blocker, err := group.LowestQuota()
	standing, period, perr := cgroup.Value(refused.From).Pair()
	wanted, _, werr := cgroup.Value(refused.Value).Pair()
	if err != nil || perr != nil || werr != nil || blocker == "" || lowest <= wanted {
		return res, ""
	}
	if standing >= 0 && lowest >= standing {
		return res, blocker // it is in place already
	}
	change := refused
	change.Value = plan.Value(cgroup.MaxValue(lowest, period))
	change.Why = because(blocker)
	o.Report(Event{Group: change.Object, Workload: change.Workload, Reason: v1alpha1.EventHostDrift, Text: change.Why})
	return o.write([]plan.Change{change})[0], blocker
}

// lowestOriginal lowers a quota as far as possible if the kernel refuses its original.
func (o *Options) lowestOriginal(res apply.Restored) {
	e := res.Entry
	if cgroupfile.Knob(e.Target) != cgroup.KnobMax || !errors.Is(res.Err, apply.ErrRefused) {
		return
	}
	o.lowest(plan.Change{From: res.Found, Setting: plan.Setting{
		Target: e.Target, ID: e.ID, Value: e.Original, Owner: e.Owner, Workload: e.Workload,
	}})
}
