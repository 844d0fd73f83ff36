package reconcile

import (
	"fmt"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/unit"
)

// followLimit makes the limit that a group has now the original of its quota, after a
// resize. entry is the group's own; other knobs have no limit. The error is the journal's, and then the quota must
// not become unlimited: the old limit would be put back over the new one.
func (r *Reconciler) followLimit(o *object, stands cgroup.Value, entry journal.Entry) error {
	if cgroupfile.Knob(entry.Target) != cgroup.KnobMax {
		return nil
	}
	w := o.desired[cgroup.KnobMax].Writers
	if w.Owned && entry.IsOurs(r.kinds(), plan.Value(stands)) {
		return nil
	}
	limit := resized(w, stands, o.knob(cgroup.KnobMax).overwritten, entry)
	if limit == "" || cgroup.Same(cgroup.KnobMax, limit, cgroup.Value(entry.Original)) {
		return nil
	}
	err := r.takeOver(o, stands, entry)
	if err == nil {
		err = r.opts.Journal.Rebase(entry.Target, o.desired[cgroup.KnobMax].Owner, plan.Value(limit))
	}
	if err != nil {
		return fmt.Errorf("follow the limit of %s: %w", o.path, err)
	}
	return nil
}

// takeOver makes an entry of another owner that of o's, which is about to write over
// what stands.
func (r *Reconciler) takeOver(o *object, stands cgroup.Value, entry journal.Entry) error {
	if entry.Owner == o.desired[cgroup.KnobMax].Owner {
		return nil
	}
	_, period, err := stands.Pair()
	if err != nil {
		return err
	}
	name := cgroupfile.Knob(entry.Target)
	s := o.setting(r.way, name, o.desired.value(name, period))
	s.ID = entry.ID
	return r.opts.Journal.Intend(plan.Change{Setting: s, From: plan.Value(stands)})
}

// resized returns what a quota is without Berth after another program wrote stands, "" where
// that says nothing new. overwritten is an earlier value of another program that was written
// over; either may be "".
//
// The group of a pod belongs to the kubelet: what is neither Berth's nor the original is
// what it wrote. A container's limit is known. The runtime that was answered to lift the
// quota does so at a resize, too, and shows nothing of the new limit; any other
// container's counts when it stands, or stood before it was written over: the limit
// that a file names may never have been the group's.
func resized(w plan.Writers, stands, overwritten cgroup.Value, entry journal.Entry) cgroup.Value {
	if stands == "" && overwritten == "" && !w.Made {
		return "" // the usual case: what stands is Berth's
	}
	n, _, err := stands.Pair()
	_, period, perr := cgroup.Value(entry.Original).Pair()
	switch {
	case w.Owned:
		if err == nil && n >= 0 {
			return stands
		}
	case w.Made && w.Limits[0] > 0 && perr == nil:
		return limitAt(w.Limits[0], period)
	case grants(w, stands), w.Lifted && err == nil && n < 0:
		return stands
	case grants(w, overwritten):
		return overwritten
	}
	return ""
}

// limit is what the container's own limit grants, 0 for none or an unknown one.
func (o *object) limit() unit.CPUs { return o.desired[cgroup.KnobMax].Writers.Limits[0] }

// grants says that a quota is what the owner's specification grants, in whatever period.
func grants(w plan.Writers, v cgroup.Value) bool {
	return cgroup.Grants(w.Limits[0], v) || cgroup.Grants(w.Limits[1], v)
}

// limitAt is a limit as cpu.max at a period. What is below the kernel's smallest quota the
// kubelet writes as that.
func limitAt(limit unit.CPUs, period unit.Micros) cgroup.Value {
	return cgroup.MaxValue(max(limit.Quota(period), cgroup.MinQuota), period)
}

// isExpected says that another writer's quota is no conflict, and may be made unlimited
// again however often it comes: the kubelet writes a pod's whenever the pod is resized, a
// runtime writes the container's limit, and systemd puts back at every daemon-reload what
// it knew before.
func (o *object) isExpected(k cgroup.Knob, stands cgroup.Value, original bool) bool {
	w := o.desired[k].Writers
	return k == cgroup.KnobMax && (w.Owned || w.PutsBack && original || grants(w, stands))
}

// concede takes over what was written to the quota of a group since the last look,
// when nothing is desired of it any more: it is the owner's, and stays.
func (r *Reconciler) concede(o *object) {
	if o.group == nil || !o.desired.sets(cgroup.KnobMax) {
		return
	}
	entry, known := r.opts.Journal.Entry(cgroupfile.Target(o.path, cgroup.KnobMax))
	id, err := o.identity(cgroup.KnobMax)
	if err != nil || !known || entry.ID != id || entry.Owner != o.desired[cgroup.KnobMax].Owner {
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
