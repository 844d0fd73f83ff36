package reconcile

import (
	"fmt"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/unit"
)

// follow makes what another program meant by its value the original: a limit that a group has
// now, after a resize, a lower one than a quota that follows the load, or a weight. It returns the
// original that counts from now on. entry is the group's own; other knobs have nothing of the
// kind. The error is the journal's, and then nothing may be written: the old limit would be put
// back over the new one.
func (r *Reconciler) follow(o *object, stands cgroup.Value, entry journal.Entry) (original cgroup.Value, err error) {
	k := cgroupfile.Knob(entry.Target)
	switch k {
	case cgroup.KnobMax:
		original = o.newLimit(r.kinds(), stands, entry)
	case cgroup.KnobPrecedence:
		original = o.newWeight(r.kinds(), stands, entry)
	default:
	}
	if original == "" || cgroup.Same(k, original, cgroup.Value(entry.Original)) {
		return cgroup.Value(entry.Original), nil
	}
	err = r.takeOver(o, stands, entry)
	if err == nil {
		err = r.opts.Journal.Rebase(entry.Target, o.desired[k].Owner, plan.Value(original))
	}
	if err != nil {
		return "", fmt.Errorf("follow the %s of %s: %w", k, o.path, err)
	}
	return original, nil
}

// newLimit is the limit that a group has now, "" for no new one.
func (o *object) newLimit(kinds plan.Kinds, stands cgroup.Value, entry journal.Entry) cgroup.Value {
	w := o.desired[cgroup.KnobMax].Writers
	if w.Moves {
		return o.lowerLimit(kinds, stands, entry)
	}
	if w.Owned && entry.IsOurs(kinds, plan.Value(stands)) {
		return ""
	}
	return resized(w, stands, o.knob(cgroup.KnobMax).overwritten, entry)
}

// lowerLimit is the limit that another program gave a group below its quota that follows the load,
// "" for none. What Berth wrote before its last value is no such limit only while that is not known
// to have come to stand.
func (o *object) lowerLimit(kinds plan.Kinds, stands cgroup.Value, entry journal.Entry) cgroup.Value {
	v, k := plan.Value(stands), cgroup.KnobMax
	if entry.IsOriginal(kinds, v) || !o.knob(k).isForeign(k, stands, o, entry.IsOurs(kinds, v), true) ||
		rate(stands) >= rate(cgroup.Value(o.desired[k].Value)) {
		return ""
	}
	return stands
}

// newWeight is the weight that another program gave a group, "" for none: an idle group has
// none and refuses one, so that the program ended what was idle. The default weight says
// nothing: every group has it that is idle no more.
func (o *object) newWeight(kinds plan.Kinds, stands cgroup.Value, entry journal.Entry) cgroup.Value {
	d := o.desired[cgroup.KnobPrecedence]
	if !d.Writers.Owned || entry.Owner != d.Owner || entry.IsOurs(kinds, plan.Value(stands)) {
		return ""
	}
	return stands
}

// takeOver makes an entry of another owner that of o's, which is about to write over
// what stands.
func (r *Reconciler) takeOver(o *object, stands cgroup.Value, entry journal.Entry) error {
	if entry.Owner == o.desired[cgroupfile.Knob(entry.Target)].Owner {
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
// that a file names may never have been the group's. Where it is the very number that Berth
// had written, no write of another program shows, and the kubelet says that it was one.
func resized(w plan.Writers, stands, overwritten cgroup.Value, entry journal.Entry) cgroup.Value {
	if to := hidden(w, entry); to != "" {
		return to
	}
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

// hidden returns the limit that is in force where it is a value of Berth's and not the original, ""
// otherwise. Berth raises no container above the limit that its specification names, so that it
// was written for an earlier one.
func hidden(w plan.Writers, entry journal.Entry) cgroup.Value {
	if !w.InForce || w.Limits[0] <= 0 || grants(w, cgroup.Value(entry.Original)) {
		return ""
	}
	for _, ours := range []plan.Value{entry.Intent, entry.Previous} {
		if cgroup.Grants(w.Limits[0], cgroup.Value(ours)) {
			return cgroup.Value(ours)
		}
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

// bounded returns what is desired of a quota that follows the load, and no more than the group has
// without Berth, which is original.
func (o *object) bounded(k cgroup.Knob, original, want cgroup.Value) cgroup.Value {
	if k == cgroup.KnobMax && o.desired[k].Writers.Moves && rate(original) < rate(want) {
		return original
	}
	return want
}

// rate is what a quota grants, all for what is none.
func rate(v cgroup.Value) unit.CPUs {
	quota, period, err := v.Pair()
	if err != nil {
		return unit.Rate(unit.NoLimit, 1)
	}
	return unit.Rate(quota, period)
}

// concede takes over what was written to the quota, or as the weight, of a group since the last
// look, when nothing is desired of it any more: it is the owner's, and stays.
func (r *Reconciler) concede(o *object) {
	for _, k := range []cgroup.Knob{cgroup.KnobMax, cgroup.KnobPrecedence} {
		if o.group == nil || !o.desired.sets(k) {
			continue
		}
		entry, known := r.opts.Journal.Entry(cgroupfile.Target(o.path, k))
		id, err := o.identity(k)
		if err != nil || !known || entry.ID != id || entry.Owner != o.desired[k].Owner {
			continue
		}
		stands, err := o.group.Read(k)
		if err != nil {
			continue // the restoration finds that out, too
		}
		if _, err := r.follow(o, stands, entry); err != nil {
			r.between.Errors = append(r.between.Errors, err)
		}
	}
}
