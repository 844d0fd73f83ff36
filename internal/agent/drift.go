package agent

import (
	"fmt"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/kernel"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/reconcile"
	"github.com/berth-project/berth/internal/unit"
)

// Another writer's value is answered in this order: the kernel's own doubling is
// no writer's; a value that the workload's spec names is a resize and becomes the
// original; anything else is written over once, since a daemon-reload of systemd
// or a restart of a runtime puts back what it knows without meaning it; after
// that the value belongs to whoever writes it, until the group has stood at its own
// limit for long enough (reconcile.Conflict).

// values are what stands in a group's files, and what other writers did there.
type values struct {
	// limit is the group's own cpu.max: what it has when Berth leaves.
	limit cgroup.Value
	// standing is the cpu.max that was last seen or written, burstStanding the same for
	// cpu.max.burst.
	standing, burstStanding cgroup.Value
	// overwritten is the last cpu.max of another writer that was written over: the
	// spec may still come to confirm it.
	overwritten cgroup.Value
	// unsettled says that a new limit is not in the journal yet.
	unsettled bool
	// maxConflict and burstConflict are what is known of other writers.
	maxConflict, burstConflict reconcile.Conflict
}

// checkMax compares cpu.max with what should stand.
func (q *quotas) checkMax(m *workloadGroup, b cgroup.Bandwidth, now time.Duration) {
	have := b.Max()
	m.unsettled = false
	_, journaled := q.entry(m, cgroup.KnobMax)
	if journaled && m.overwritten != "" && m.confirms(m.overwritten) && q.rebase(m, m.overwritten) {
		// The spec came after its value, which was written over meanwhile.
		q.resized(m, cgroup.ScaleTo(m.overwritten, b.Period))
		m.standing, m.overwritten = have, ""
		return
	}
	switch {
	case cgroup.Same(cgroup.KnobMax, have, m.standing):
		m.standing = have
	case !journaled:
		q.resized(m, have) // never written: it is the owner's own limit
	case m.confirms(have) || b.Quota < 0:
		// A limit that was removed is not Berth's to put back: no group without a
		// quota is ever written.
		if m.unsettled = !q.rebase(m, have); !m.unsettled {
			q.resized(m, have)
		}
	case q.samePeriodless(m, b):
		m.standing = have
	case !m.spans(b.Period) || !q.mayAssert(m, cgroup.KnobMax, m.standing, have, now):
		q.leave(m, have, now)
	default:
		m.standing, m.overwritten = have, have
	}
}

// samePeriodless takes over a period that was changed alone, under the quota that
// Berth had written: the limit is the same quota in the new period, and the law
// goes on from there. Left alone, Berth's own number would be the workload's limit.
func (q *quotas) samePeriodless(m *workloadGroup, b cgroup.Bandwidth) bool {
	ours, _, err := m.standing.Pair()
	limit, _, lerr := m.limit.Pair()
	if err != nil || lerr != nil || ours != b.Quota || limit == ours || m.spans(b.Period) {
		return false
	}
	moved := cgroup.MaxValue(limit, b.Period)
	if m.unsettled = !q.rebase(m, moved); !m.unsettled {
		q.resized(m, moved)
	}
	return true
}

// spans says whether the group's limit is known at this period. A quota of
// one period means nothing at another unless the kernel doubled it.
func (v *values) spans(period unit.Micros) bool {
	_, scaled, err := cgroup.ScaleTo(v.limit, period).Pair()
	return err == nil && scaled == period
}

// checkBurst compares the kernel's burst with what should stand and writes it
// when the policy starts. Another writer's burst is left alone after one try; the
// quota goes on moving, with that burst in the law.
func (q *quotas) checkBurst(m *workloadGroup, b cgroup.Bandwidth, now time.Duration) {
	if !m.workload.Burst.KernelBurst || m.kernelBurst != kernel.Supported || m.law.Facts.LimitQuota <= 0 {
		return
	}
	have := b.BurstValue()
	want := q.wanted(m, cgroup.KnobBurst)
	_, journaled := q.entry(m, cgroup.KnobBurst)
	foreign := journaled && !cgroup.Same(cgroup.KnobBurst, have, m.burstStanding)
	m.burstStanding = have
	if foreign && !m.law.ForeignBurst && !q.mayAssert(m, cgroup.KnobBurst, cgroup.Value(want.Value), have, now) {
		q.drifts++
		m.law.ForeignBurst = true
		q.opts.Log.Warn(v1alpha1.EventHostDrift, "workload", m.workload.Name, "reason", m.leftBurst())
	}
	if m.law.ForeignBurst || m.bursting.Held(now) || !journaled && b.Burst >= m.law.KernelBurst() {
		return // it is another writer's, or as much as is desired already
	}
	q.commit(m, now, want)
}

// confirms says whether the workload's own spec names the limit v. A resize that the
// kubelet held is written before its pod's status says that it is not held any more.
func (m *workloadGroup) confirms(v cgroup.Value) bool {
	return cgroup.Grants(m.workload.Limit, v) || cgroup.Grants(m.workload.Asked, v)
}

// resized takes a new limit over. Credit stays, cut to the new capacity.
func (q *quotas) resized(m *workloadGroup, have cgroup.Value) {
	q.opts.Log.Info("limit changed", "workload", m.workload.Name, "from", string(m.limit), "to", string(have))
	m.limit, m.standing = have, have
	m.law.Resized()
	q.settleState(m)
}

// rebase makes the value that stands the journal's original, and says whether
// that is on disk. While it is not, the journal would put the old limit back over
// the new one.
func (w *writer) rebase(m *workloadGroup, have cgroup.Value) bool {
	err := w.journal.Rebase(cgroupfile.Target(m.group.Path(), cgroup.KnobMax), plan.OwnerBurst, plan.Value(have))
	if err != nil {
		w.fail("journal", err)
	}
	return err == nil
}

// mayAssert allows one write over a foreign value a minute.
func (w *writer) mayAssert(m *workloadGroup, k cgroup.Knob, want, have cgroup.Value, now time.Duration) bool {
	conflict := &m.maxConflict
	if k == cgroup.KnobBurst {
		conflict = &m.burstConflict
	}
	if !conflict.MayAssert(now) {
		return false
	}
	w.log.Info("written by another writer, asserting once more", "workload", m.workload.Name,
		"group", m.group.Path(), "knob", string(k), "was", string(want), "is", string(have))
	return true
}

// leave gives cpu.max up to whoever writes it.
func (q *quotas) leave(m *workloadGroup, have cgroup.Value, now time.Duration) {
	q.drifts++
	reason := fmt.Sprintf("%s of %s is %q, Berth had %q: it is left to whoever writes it",
		cgroup.KnobMax, m.group.Path(), have, m.standing)
	m.maxConflict.Leave(now, plan.Value(have), reason)
	m.standing = have
	q.enter(m, StateDrift, reason)
	q.opts.Log.Warn(v1alpha1.EventHostDrift, "workload", m.workload.Name, "reason", reason)
}

// leftBurst says that the kernel's burst is another writer's, empty if it is not.
func (m *workloadGroup) leftBurst() string {
	if !m.law.ForeignBurst || m.group == nil || !m.workload.Burst.KernelBurst {
		return ""
	}
	return fmt.Sprintf("%s of %s is %q: it is left to whoever writes it", cgroup.KnobBurst, m.group.Path(), m.burstStanding)
}

// recheckDrift takes a drifted workload up again when its own spec confirms what
// stands, or when its own limit has stood undisturbed for long enough.
func (q *quotas) recheckDrift(m *workloadGroup, b cgroup.Bandwidth, now time.Duration) {
	m.unsettled = false
	atLimit := cgroup.Same(cgroup.KnobMax, b.Max(), m.limit)
	confirmed := !atLimit && m.confirms(b.Max())
	m.maxConflict.See(now, plan.Value(b.Max()), atLimit || confirmed)
	if confirmed {
		if !q.rebase(m, b.Max()) {
			return
		}
		m.limit = b.Max()
	} else if !m.maxConflict.IsOver(now) {
		return
	}
	m.maxConflict, m.burstConflict = reconcile.Conflict{End: reconcile.EndOriginal}, reconcile.Conflict{}
	m.standing, m.burstStanding, m.law.ForeignBurst = b.Max(), b.BurstValue(), false
	q.resume(m, b, now)
}

// resume lets the law decide again about a group that was not looked at.
func (q *quotas) resume(m *workloadGroup, b cgroup.Bandwidth, now time.Duration) {
	before := m.state
	q.take(m, b)
	q.settleState(m)
	q.activate(m, before, now)
}

// activate starts the looks at a group that just became active, from what it has
// used up to now. What it used without a limit is no debt.
func (q *quotas) activate(m *workloadGroup, before State, now time.Duration) {
	if m.state != StateActive || before == StateActive {
		return
	}
	usage, err := m.group.Usage()
	if err != nil {
		q.suspend(m, err.Error())
		return
	}
	m.law.Begin(q.opts.Clock(), usage)
	if s, ok := q.saved[m.group.Path()]; ok && before == StateNoLimit {
		s.Ledger.At, s.Ledger.Usage = m.law.Facts.At, usage
		q.saved[m.group.Path()] = s
	}
	q.openLedger(m)
	m.due, m.rereadDue = now, now
}

// otherSpec says whether the spec names another limit than the group has.
func (m *workloadGroup) otherSpec() bool {
	limit, _, err := m.limit.Pair()
	return err == nil && limit >= 0 && m.workload.Limit > 0 && !cgroup.Grants(m.workload.Limit, m.limit)
}

// specDiffers warns where it does.
func (m *workloadGroup) specDiffers() string {
	if !m.otherSpec() {
		return ""
	}
	return fmt.Sprintf("spec.cpu.limit is %g CPUs, the group's limit is %g CPUs: the group's counts",
		m.workload.Limit, rate(m.limit))
}
