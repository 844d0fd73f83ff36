package reconcile

import (
	"time"

	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
)

// LetGo restores the quotas that their owners (Options.Movers) do not ask for any more: the policy or the file was
// removed, the group was removed, or another group has its name. A failure is reported once and tried again.
func (all *Quotas) LetGo(now time.Duration) {
	due := func(e journal.Entry) bool { return all.unasked(e) && all.unrestored.Due(e, now) }
	for _, res := range all.opts.Applier.Restore(due, false) {
		if all.unrestored.Take(res, now) {
			all.opts.Report(stays(res))
		}
		if res.Outcome != apply.OutcomeDrifted && res.Outcome != apply.OutcomeFailed {
			all.opts.Log.Info("let go", "target", res.Entry.Target.String(), "outcome", string(res.Outcome),
				"original", string(res.Entry.Original))
		}
		all.lowestOriginal(res)
	}
	all.unrestored.Keep(func(t plan.Target) bool {
		_, known := all.opts.Journal.Entry(t)
		return known
	})
}

// Retry makes the next LetGo retry the failed restorations of a group at once.
func (all *Quotas) Retry(group string) {
	for _, k := range []cgroup.Knob{cgroup.KnobMax, cgroup.KnobBurst} {
		all.unrestored.Forget(cgroupfile.Target(group, k))
	}
}

// Leave restores the matching values at the end of an agent, and counts the values that stay as they are. Another
// writer changed the drifted values; the kernel or the disk refused the failed values.
func (all *Quotas) Leave(of func(journal.Entry) bool) (drifted, failed int) {
	for _, res := range all.opts.Applier.Restore(of, false) {
		switch res.Outcome {
		case apply.OutcomeDrifted:
			drifted++
		case apply.OutcomeFailed:
			failed++
		case apply.OutcomeRestored, apply.OutcomeAlready, apply.OutcomeGone:
			continue
		}
		all.opts.Log.Warn("not put back", "target", res.Entry.Target.String(), "outcome", string(res.Outcome),
			"found", string(res.Found), "error", res.Err)
		all.lowestOriginal(res)
	}
	return drifted, failed
}

// unasked reports whether an entry is a quota that its owner does not ask for any more.
func (all *Quotas) unasked(e journal.Entry) bool {
	asked := all.opts.Movers[e.Owner]
	return asked != nil && !asked(e)
}
