package agent

import (
	"errors"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
)

// restoreUnwanted puts back whatever no workload asks for any more: the policy
// or the file was removed, the group was taken away, another group has its name.
// What cannot be put back is reported once and tried again.
func (q *quotas) restoreUnwanted(now time.Duration) {
	due := func(e journal.Entry) bool {
		return e.Owner == plan.OwnerBurst && !q.keeps(e) && q.unrestored.Due(e, now)
	}
	for _, r := range q.applier.Restore(due, false) {
		isNew := q.unrestored.Take(r, now)
		if done(r.Outcome) {
			q.opts.Log.Info("let go", "target", r.Entry.Target.String(), "outcome", string(r.Outcome),
				"original", string(r.Entry.Original))
			continue
		}
		if isNew {
			q.opts.Log.Warn(v1alpha1.EventHostDrift, "target", r.Entry.Target.String(), "outcome", string(r.Outcome),
				"found", string(r.Found), "original", string(r.Entry.Original), "error", r.Err)
		}
		q.lowerRefused(r)
	}
	q.unrestored.Keep(func(t plan.Target) bool {
		_, known := q.journal.Entry(t)
		return known
	})
}

// restoreAll puts everything back and says how many values stay as they are:
// drifted ones are another writer's, failed ones the kernel or the disk refused.
func (q *quotas) restoreAll() (drifted, failed int) {
	for _, r := range q.applier.Restore(func(e journal.Entry) bool { return !q.opts.stays(e.Owner) }, false) {
		switch r.Outcome {
		case apply.OutcomeDrifted:
			drifted++
		case apply.OutcomeFailed:
			failed++
		case apply.OutcomeRestored, apply.OutcomeAlready, apply.OutcomeGone:
			continue
		}
		q.opts.Log.Warn("not put back", "target", r.Entry.Target.String(), "outcome", string(r.Outcome),
			"found", string(r.Found), "error", r.Err)
		q.lowerRefused(r)
	}
	return drifted, failed
}

// lowerRefused lowers a quota whose original the kernel refuses as far as it can.
func (q *quotas) lowerRefused(r apply.Restored) {
	if cgroupfile.Knob(r.Entry.Target) != cgroup.KnobMax || !errors.Is(r.Err, apply.ErrRefused) {
		return
	}
	group, err := q.host.Group(r.Entry.Target.Object)
	if err != nil {
		return // gone meanwhile: the next restore says so
	}
	defer group.Close()
	q.writeLowest(group, plan.Change{From: r.Found, Setting: plan.Setting{
		Target: r.Entry.Target, ID: r.Entry.ID, Value: r.Entry.Original, Owner: r.Entry.Owner, Workload: r.Entry.Workload,
	}})
}

// writeLowest writes the lowest quota that the kernel takes, instead of the
// refused change, and names what stands in the way; empty when nothing can be won.
func (w *writer) writeLowest(group *cgroup.Group, refused plan.Change) (r apply.Result, blocker string) {
	lowest, blocker, err := group.LowestQuota()
	standing, period, perr := cgroup.Value(refused.From).Pair()
	wanted, _, werr := cgroup.Value(refused.Value).Pair()
	if err != nil || perr != nil || werr != nil || blocker == "" || lowest <= wanted {
		return r, ""
	}
	if standing >= 0 && lowest >= standing {
		return r, blocker // it is there already
	}
	change := refused
	change.Value = plan.Value(cgroup.MaxValue(lowest, period))
	change.Why = "the kernel does not take the limit because of " + blocker
	w.log.Warn(v1alpha1.EventHostDrift, "workload", change.Workload, "reason", change.Why)
	return w.applier.Apply([]plan.Change{change})[0], blocker
}

// forgetLeft lets a restore of the group's values be tried at once.
func (w *writer) forgetLeft(path string) {
	for _, k := range []cgroup.Knob{cgroup.KnobMax, cgroup.KnobBurst} {
		w.unrestored.Forget(cgroupfile.Target(path, k))
	}
}

// done says that nothing of Berth's is left of an entry.
func done(o apply.Outcome) bool {
	return o != apply.OutcomeDrifted && o != apply.OutcomeFailed
}
