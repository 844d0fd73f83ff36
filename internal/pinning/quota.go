package pinning

import (
	"fmt"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
)

// followLimit makes the limit that a group has now the original of its quota, after a
// resize. entry is the group's own; other knobs have no limit. The error is the journal's, and then the quota must
// not be lifted: the old limit would be put back over the new one.
func (k *Keeper) followLimit(m *member, stands cgroup.Value, entry journal.Entry) error {
	if cgroupfile.Knob(entry.Target) != cgroup.KnobMax {
		return nil
	}
	limit := m.limit(k.kinds(), stands, entry)
	if limit == "" || cgroup.Same(cgroup.KnobMax, limit, cgroup.Value(entry.Original)) {
		return nil
	}
	err := k.takeOver(m, stands, entry)
	if err == nil {
		err = k.opts.Journal.Rebase(entry.Target, m.wish.owner(), plan.Value(limit))
	}
	if err != nil {
		return fmt.Errorf("follow the limit of %s: %w", m.wish.Group, err)
	}
	return nil
}

// takeOver makes an entry that somebody else of Berth left behind that of the wish,
// which is about to write over what stands.
func (k *Keeper) takeOver(m *member, stands cgroup.Value, entry journal.Entry) error {
	if entry.Owner == m.wish.owner() {
		return nil
	}
	_, period, err := stands.Pair()
	if err != nil {
		return err
	}
	name := cgroupfile.Knob(entry.Target)
	s := k.setting(m, name, m.wish.value(name, period))
	s.ID = entry.ID
	return k.opts.Journal.Intend(plan.Change{Setting: s, From: plan.Value(stands)})
}

// limit is what the quota of a group would be without Berth, as far as that is known to
// differ from what the journal has, "" if it is not.
//
// The group of a pod belongs to the kubelet: what is neither Berth's nor the original is
// what it wrote. A container's limit is known. The runtime that was told to lift the
// quota does so at a resize, too, and shows nothing of the new limit; any other
// container's counts when it stands, or stood before it was written over: the limit
// that a file names may never have been the group's.
func (m *member) limit(kinds plan.Kinds, stands cgroup.Value, entry journal.Entry) cgroup.Value {
	if m.wish.isPod() {
		if n, _, err := stands.Pair(); err != nil || n < 0 || entry.IsOurs(kinds, plan.Value(stands)) {
			return ""
		}
		return stands
	}
	_, period, err := cgroup.Value(entry.Original).Pair()
	if err != nil || m.wish.Limit <= 0 {
		return ""
	}
	limit := m.wish.limitAt(period)
	if m.wish.Made || m.isLimit(stands) || m.isLimit(m.knob(cgroup.KnobMax).overwritten) {
		return limit
	}
	return ""
}

// isLimit says that a quota is the container's own limit, in whatever period.
func (m *member) isLimit(v cgroup.Value) bool {
	_, period, err := v.Pair()
	return err == nil && m.wish.Limit > 0 && v == m.wish.limitAt(period)
}

// nobodyMeans says that a quota that stands is not meant against Berth, and may be
// lifted again however often it comes: the kubelet writes a pod's whenever the pod is
// resized, a runtime writes the container's limit, and systemd puts back at every
// daemon-reload what it knew before.
func (m *member) nobodyMeans(k cgroup.Knob, stands cgroup.Value, original bool) bool {
	return k == cgroup.KnobMax && (m.wish.isPod() || original || m.isLimit(stands))
}

// concede takes over what was written to the quota of a group since the last look,
// when its wish ends: it is the owner's, and stays.
func (k *Keeper) concede(m *member) {
	if m.group == nil || !m.wish.NoQuota {
		return
	}
	entry, known := k.opts.Journal.Entry(cgroupfile.Target(m.wish.Group, cgroup.KnobMax))
	id, err := m.identity(cgroup.KnobMax)
	if err != nil || !known || entry.ID != id || entry.Owner != m.wish.owner() {
		return
	}
	stands, err := m.group.Read(cgroup.KnobMax)
	if err != nil {
		return // the restoration finds that out, too
	}
	if err := k.followLimit(m, stands, entry); err != nil {
		k.between.Errors = append(k.between.Errors, err)
	}
}
