package reconcile

import (
	"fmt"

	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/unit"
)

// follow makes a value that another program set deliberately the original: a limit after a resize, a limit below a
// quota that follows the load, or a weight. It returns the original from now on. Only the quota and the precedence can
// change this way. The error is the journal's; the caller must then write nothing, because the old limit would be
// restored over the new limit.
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

// newLimit returns the group's new limit, "" for none.
func (o *object) newLimit(kinds plan.Kinds, stands cgroup.Value, entry journal.Entry) cgroup.Value {
	w := o.desired[cgroup.KnobMax].Writers
	if w.Moves {
		return o.lowerLimit(kinds, stands, entry)
	}
	if w.Owned && entry.IsOurs(kinds, plan.Value(stands)) {
		return ""
	}
	return resized(w, stands, cgroup.Value(o.knob(cgroup.KnobMax).overwritten), entry)
}

// lowerLimit returns the limit that another program gave a group below its quota that follows the load, "" for none.
// The value before Berth's last value is no limit only while that last value is not known to have been in effect.
func (o *object) lowerLimit(kinds plan.Kinds, stands cgroup.Value, entry journal.Entry) cgroup.Value {
	k := cgroup.KnobMax
	f := o.found(kinds, k, stands, entry, true)
	if f.original() || !o.knob(k).isForeign(&f) || rate(stands) >= rate(cgroup.Value(o.desired[k].Value)) {
		return ""
	}
	return stands
}

// newWeight returns the weight that another program gave a group, "" for none. An idle group has no weight and refuses
// one, so the program ended the idle state.
func (o *object) newWeight(kinds plan.Kinds, stands cgroup.Value, entry journal.Entry) cgroup.Value {
	d := o.desired[cgroup.KnobPrecedence]
	if !d.Writers.Owned || entry.Owner != d.Owner || entry.IsOurs(kinds, plan.Value(stands)) {
		return ""
	}
	return stands
}

// takeOver makes o the owner of another owner's entry: Berth is about to overwrite the current value for o.
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

// resized returns the quota without Berth after another program wrote stands, "" if that is nothing new. overwritten is
// an earlier value of another program that Berth overwrote; either may be "".
//
// A pod's group belongs to the kubelet: any value that is neither Berth's nor the original is the kubelet's. A
// container's limit is known. A runtime that was answered to remove the quota does so at a resize, too, and shows
// nothing of the new limit. For any other container, a value that equals its limit is valid, now or before it was
// overwritten: the limit that a file names may never have been the group's. If the limit equals a value that Berth had
// written, another program's write is invisible, and only the kubelet reports it.
func resized(w plan.Writers, stands, overwritten cgroup.Value, entry journal.Entry) cgroup.Value {
	if to := hidden(w, entry); to != "" {
		return to
	}
	if stands == "" && overwritten == "" && !w.Made {
		return "" // the usual case: the value is Berth's
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

// hidden returns the limit in force if it is a value of Berth's and not the original, "" otherwise. Berth raises no
// container above its specified limit, so Berth wrote that value for an earlier limit.
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

// limit returns the container's own limit, 0 for none or an unknown limit.
func (o *object) limit() unit.CPUs { return o.desired[cgroup.KnobMax].Writers.Limits[0] }

// grants reports whether a quota equals what the owner's specification grants, in any period.
func grants(w plan.Writers, v cgroup.Value) bool {
	return cgroup.Grants(w.Limits[0], v) || cgroup.Grants(w.Limits[1], v)
}

// limitAt returns a limit as cpu.max at a period. The kubelet raises lower values to the kernel's smallest quota.
func limitAt(limit unit.CPUs, period unit.Micros) cgroup.Value {
	return cgroup.MaxValue(max(limit.Quota(period), cgroup.MinQuota), period)
}

// isExpected reports whether another writer's quota is no conflict, and may be overwritten however often it comes: the
// kubelet writes a pod's quota at every resize, a runtime writes the container's limit, and systemd writes its recorded
// value at every daemon-reload.
func (o *object) isExpected(k cgroup.Knob, stands cgroup.Value, original bool) bool {
	w := o.desired[k].Writers
	return k == cgroup.KnobMax && (w.Owned || w.PutsBack && original || grants(w, stands))
}

// bounded returns the desired value, but for a quota that follows the load no more than original.
func (o *object) bounded(k cgroup.Knob, original, want cgroup.Value) cgroup.Value {
	if k == cgroup.KnobMax && o.desired[k].Writers.Moves && rate(original) < rate(want) {
		return original
	}
	return want
}

// rate returns the rate of a quota, the maximum for a malformed one.
func rate(v cgroup.Value) unit.CPUs {
	quota, period, err := v.Pair()
	if err != nil {
		return unit.Rate(unit.NoLimit, 1)
	}
	return unit.Rate(quota, period)
}

// concede makes a quota or weight that another program wrote since the last check the original, when Berth has no
// desired value any more: it is the owner's value, and stays.
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
			continue // the restoration reports it, too
		}
		if _, err := r.follow(o, stands, entry); err != nil {
			r.between.fail(err)
		}
	}
}
