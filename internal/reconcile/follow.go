package reconcile

import (
	"fmt"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
)

// followLimit makes the limit that a group has now the original of its quota, after a
// resize. entry is the group's own; other knobs have no limit. The error is the journal's, and then the quota must
// not become unlimited: the old limit would be put back over the new one.
func (r *Reconciler) followLimit(o *object, stands cgroup.Value, entry journal.Entry) error {
	if cgroupfile.Knob(entry.Target) != cgroup.KnobMax {
		return nil
	}
	limit := o.limit(r.kinds(), stands, entry)
	if limit == "" || cgroup.Same(cgroup.KnobMax, limit, cgroup.Value(entry.Original)) {
		return nil
	}
	err := r.takeOver(o, stands, entry)
	if err == nil {
		err = r.opts.Journal.Rebase(entry.Target, o.desired.owner(), plan.Value(limit))
	}
	if err != nil {
		return fmt.Errorf("follow the limit of %s: %w", o.desired.Group, err)
	}
	return nil
}

// takeOver makes an entry of another owner that of o's, which is about to write over
// what stands.
func (r *Reconciler) takeOver(o *object, stands cgroup.Value, entry journal.Entry) error {
	if entry.Owner == o.desired.owner() {
		return nil
	}
	_, period, err := stands.Pair()
	if err != nil {
		return err
	}
	name := cgroupfile.Knob(entry.Target)
	s := r.setting(o, name, o.desired.value(name, period))
	s.ID = entry.ID
	return r.opts.Journal.Intend(plan.Change{Setting: s, From: plan.Value(stands)})
}

// limit is what the quota of a group would be without Berth, as far as it is known to
// differ from what the journal has, "" if it is not.
//
// The group of a pod belongs to the kubelet: what is neither Berth's nor the original is
// what it wrote. A container's limit is known. The runtime that was answered to lift the
// quota does so at a resize, too, and shows nothing of the new limit; any other
// container's counts when it stands, or stood before it was written over: the limit
// that a file names may never have been the group's.
func (o *object) limit(kinds plan.Kinds, stands cgroup.Value, entry journal.Entry) cgroup.Value {
	if o.desired.isPod() {
		if n, _, err := stands.Pair(); err != nil || n < 0 || entry.IsOurs(kinds, plan.Value(stands)) {
			return ""
		}
		return stands
	}
	_, period, err := cgroup.Value(entry.Original).Pair()
	if err != nil || o.desired.Limit <= 0 {
		return ""
	}
	limit := o.desired.limitAt(period)
	if o.desired.Made || o.isLimit(stands) || o.isLimit(o.knob(cgroup.KnobMax).overwritten) {
		return limit
	}
	return ""
}

// isLimit says that a quota is the container's own limit, in whatever period.
func (o *object) isLimit(v cgroup.Value) bool {
	_, period, err := v.Pair()
	return err == nil && o.desired.Limit > 0 && v == o.desired.limitAt(period)
}

// isExpected says that another writer's quota is no conflict, and may be made unlimited again however often it comes: the kubelet writes a pod's whenever the pod is
// resized, a runtime writes the container's limit, and systemd puts back at every
// daemon-reload what it knew before.
func (o *object) isExpected(k cgroup.Knob, stands cgroup.Value, original bool) bool {
	return k == cgroup.KnobMax && (o.desired.isPod() || original || o.isLimit(stands))
}

// concede takes over what was written to the quota of a group since the last look,
// when nothing is desired of it any more: it is the owner's, and stays.
func (r *Reconciler) concede(o *object) {
	if o.group == nil || !o.desired.NoQuota {
		return
	}
	entry, known := r.opts.Journal.Entry(cgroupfile.Target(o.desired.Group, cgroup.KnobMax))
	id, err := o.identity(cgroup.KnobMax)
	if err != nil || !known || entry.ID != id || entry.Owner != o.desired.owner() {
		return
	}
	stands, err := o.group.Read(cgroup.KnobMax)
	if err != nil {
		return // the restoration finds that out, too
	}
	if err := r.followLimit(o, stands, entry); err != nil {
		r.between.Errors = append(r.between.Errors, err)
	}
}
