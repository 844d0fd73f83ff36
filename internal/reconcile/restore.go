package reconcile

import (
	"errors"
	"fmt"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
)

// unrestored is what could not be put back: reported says that its fault was reported,
// deferred is the unit that it was left to systemd for, the one of the journal, "" for
// none.
type unrestored struct {
	reported bool
	deferred string
}

// restore puts back what is not desired any more. That comes after the writes: groups
// that have to leave CPUs have left by then.
func (r *Reconciler) restore() {
	if !r.stale && (len(r.unrestored) == 0 || r.now < r.restoreAt) {
		return
	}
	r.stale, r.restoreAt = false, r.now+lastRetry
	before := r.unrestored
	r.unrestored = map[plan.Target]unrestored{}
	for _, res := range r.opts.Applier.Restore(r.undesired, false) {
		r.takeRestored(res, before[res.Entry.Target].reported)
	}
}

// takeRestored takes over what became of an entry. reported says that its fault was
// reported before.
func (r *Reconciler) takeRestored(res apply.Restored, reported bool) {
	if res.Outcome == apply.OutcomeRestored {
		r.report.Restored++
	}
	if errors.Is(res.Err, apply.ErrDeferred) {
		r.unrestored[res.Entry.Target], r.restoreAt = unrestored{reported: reported, deferred: cgroupfile.Unit(res.Entry.Target)}, r.now // the next pass has the answer
		return
	}
	if res.Err != nil && !reported {
		r.fail(res.Err)
	}
	if res.Outcome != apply.OutcomeDrifted && res.Outcome != apply.OutcomeFailed {
		return
	}
	r.unrestored[res.Entry.Target] = unrestored{reported: true}
	if res.Outcome == apply.OutcomeDrifted && !reported {
		r.report.Events = append(r.report.Events, leftBehind(res))
	}
}

// leftBehind says that another writer's value stays.
func leftBehind(r apply.Restored) Event {
	return Event{
		Group: r.Entry.Target.Object, Workload: r.Entry.Workload, Reason: v1alpha1.EventHostDrift,
		Text: fmt.Sprintf("%s is %q and stays so: Berth had %q and found %q", r.Entry.Target, r.Found, r.Entry.Intent, r.Entry.Original),
	}
}

// undesired says that an entry is of this package and nothing is desired of its target.
func (r *Reconciler) undesired(e journal.Entry) bool {
	if e.Owner != plan.OwnerPlace && e.Owner != plan.OwnerPool {
		return false
	}
	return !r.isDesired(e.Target)
}

// isDesired says that a knob of a group has a desired value.
func (r *Reconciler) isDesired(t plan.Target) bool {
	o := r.objects[t.Object]
	return o != nil && o.desired.sets(cgroupfile.Knob(t))
}
