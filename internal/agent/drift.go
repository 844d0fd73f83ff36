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

// Somebody else's write is answered in this order: the kernel's own doubling is
// nobody's; a value that the workload's spec names is a resize and becomes the
// original; anything else is written over once, since a daemon-reload of systemd
// or a restart of a runtime puts back what it knows without meaning it; after
// that the value belongs to whoever writes it, until the group has stood at its own
// limit for long enough (reconcile.Conflict).

// checkMax compares cpu.max with what should stand.
func (c *controller) checkMax(m *member, b cgroup.Bandwidth, now time.Duration) {
	have := b.Max()
	m.unsettled = false
	_, journaled := c.entry(m, cgroup.KnobMax)
	if journaled && m.overwritten != "" && m.confirms(m.overwritten) && c.rebase(m, m.overwritten) {
		// The spec came after its value, which was written over meanwhile.
		c.resized(m, cgroup.ScaleTo(m.overwritten, b.Period))
		m.standing, m.overwritten = have, ""
		return
	}
	switch {
	case cgroup.Same(cgroup.KnobMax, have, m.standing):
		m.standing = have
	case !journaled:
		c.resized(m, have) // never written: it is the owner's own limit
	case m.confirms(have) || b.Quota < 0:
		// A limit that was lifted is not ours to put back: no group without a
		// quota is ever written.
		if m.unsettled = !c.rebase(m, have); !m.unsettled {
			c.resized(m, have)
		}
	case c.samePeriodless(m, b):
		m.standing = have
	case !m.spans(b.Period) || !c.mayAssert(m, cgroup.KnobMax, m.standing, have, now):
		c.leave(m, have, now)
	default:
		m.standing, m.overwritten = have, have
	}
}

// samePeriodless takes over a period that was changed alone, under the quota that
// Berth had written: the limit is the same quota in the new period, and the law
// goes on from there. Left alone, Berth's own number would be somebody's limit.
func (c *controller) samePeriodless(m *member, b cgroup.Bandwidth) bool {
	ours, _, err := m.standing.Pair()
	limit, _, lerr := m.limit.Pair()
	if err != nil || lerr != nil || ours != b.Quota || limit == ours || m.spans(b.Period) {
		return false
	}
	moved := cgroup.MaxValue(limit, b.Period)
	if m.unsettled = !c.rebase(m, moved); !m.unsettled {
		c.resized(m, moved)
	}
	return true
}

// spans says whether the group's limit can be told at this period. A quota of
// one period means nothing at another unless the kernel doubled it.
func (m *member) spans(period unit.Micros) bool {
	_, scaled, err := cgroup.ScaleTo(m.limit, period).Pair()
	return err == nil && scaled == period
}

// checkBurst compares the kernel's burst with what should stand and writes it
// when the policy starts. Somebody else's burst is left alone after one try; the
// quota goes on moving, with that burst in the law.
func (c *controller) checkBurst(m *member, b cgroup.Bandwidth, now time.Duration) {
	if !m.workload.Burst.KernelBurst || m.kernelBurst != kernel.Supported || m.facts.LimitQuota <= 0 {
		return
	}
	have := b.BurstValue()
	want := c.wanted(m, cgroup.KnobBurst)
	_, journaled := c.entry(m, cgroup.KnobBurst)
	foreign := journaled && !cgroup.Same(cgroup.KnobBurst, have, m.burstStanding)
	m.burstStanding = have
	if foreign && !m.burstLeft && !c.mayAssert(m, cgroup.KnobBurst, cgroup.Value(want.Value), have, now) {
		c.drifts++
		m.burstLeft = true
		c.opts.Log.Warn(v1alpha1.EventHostDrift, "workload", m.workload.Name, "reason", m.leftBurst())
	}
	if m.burstLeft || m.bursting.Held(now) || !journaled && b.Burst >= m.burstWanted() {
		return // it is somebody else's, or as much as is wanted already
	}
	c.commit(m, now, want)
}

// burstWanted is the kernel burst of m's policy in microseconds. The kernel
// refuses a quota below the burst: where the spec asks for a smaller limit than
// the group has, the burst makes room, so that the owner can write it.
func (m *member) burstWanted() unit.Micros {
	if m.noBurst {
		return 0
	}
	quota := m.facts.LimitQuota
	if m.workload.Limit > 0 {
		quota = min(quota, m.workload.Limit.Quota(m.facts.Period))
	}
	return m.policy.KernelBurst(quota)
}

// confirms says whether the workload's own spec names the limit v. A resize that the
// kubelet held is written before its pod's status says that it is not held any more.
func (m *member) confirms(v cgroup.Value) bool {
	return cgroup.Grants(m.workload.Limit, v) || cgroup.Grants(m.workload.Asked, v)
}

// resized takes a new limit over. Credit stays, cut to the new capacity.
func (c *controller) resized(m *member, have cgroup.Value) {
	c.opts.Log.Info("limit changed", "workload", m.workload.Name, "from", string(m.limit), "to", string(have))
	m.limit, m.standing = have, have
	m.yielding, m.noBurst = 0, false
	c.settleState(m)
}

// rebase makes the value that stands the journal's original, and says whether
// that is on disk. While it is not, the journal would put the old limit back over
// the new one.
func (c *controller) rebase(m *member, have cgroup.Value) bool {
	err := c.journal.Rebase(cgroupfile.Target(m.group.Path(), cgroup.KnobMax), plan.OwnerBurst, plan.Value(have))
	if err != nil {
		c.fail("journal", err)
	}
	return err == nil
}

// mayAssert allows one write over a foreign value a minute.
func (c *controller) mayAssert(m *member, k cgroup.Knob, want, have cgroup.Value, now time.Duration) bool {
	conflict := &m.maxConflict
	if k == cgroup.KnobBurst {
		conflict = &m.burstConflict
	}
	if !conflict.MayAssert(now) {
		return false
	}
	c.opts.Log.Info("written by somebody else, asserting once more", "workload", m.workload.Name,
		"group", m.group.Path(), "knob", string(k), "was", string(want), "is", string(have))
	return true
}

// leave gives cpu.max up to whoever writes it.
func (c *controller) leave(m *member, have cgroup.Value, now time.Duration) {
	c.drifts++
	reason := fmt.Sprintf("%s of %s is %q, Berth had %q: it is left to whoever writes it",
		cgroup.KnobMax, m.group.Path(), have, m.standing)
	m.maxConflict.Leave(now, plan.Value(have), reason)
	m.standing = have
	c.enter(m, StateDrift, reason)
	c.opts.Log.Warn(v1alpha1.EventHostDrift, "workload", m.workload.Name, "reason", reason)
}

// leftBurst says that the kernel's burst is somebody else's, empty if it is not.
func (m *member) leftBurst() string {
	if !m.burstLeft || m.group == nil || !m.workload.Burst.KernelBurst {
		return ""
	}
	return fmt.Sprintf("%s of %s is %q: it is left to whoever writes it", cgroup.KnobBurst, m.group.Path(), m.burstStanding)
}

// recheckDrift takes a drifted workload up again when its own spec confirms what
// stands, or when its own limit has stood undisturbed for long enough.
func (c *controller) recheckDrift(m *member, b cgroup.Bandwidth, now time.Duration) {
	m.unsettled = false
	atLimit := cgroup.Same(cgroup.KnobMax, b.Max(), m.limit)
	confirmed := !atLimit && m.confirms(b.Max())
	m.maxConflict.See(now, plan.Value(b.Max()), atLimit || confirmed)
	if confirmed {
		if !c.rebase(m, b.Max()) {
			return
		}
		m.limit = b.Max()
	} else if !m.maxConflict.IsOver(now) {
		return
	}
	m.maxConflict, m.burstConflict = reconcile.Conflict{End: reconcile.EndOriginal}, reconcile.Conflict{}
	m.standing, m.burstStanding, m.burstLeft = b.Max(), b.BurstValue(), false
	c.resume(m, b, now)
}

// resume lets the law decide again about a group that was not looked at.
func (c *controller) resume(m *member, b cgroup.Bandwidth, now time.Duration) {
	before := m.state
	c.take(m, b)
	c.settleState(m)
	c.activate(m, before, now)
}

// activate starts the looks at a group that just became active, from what it has
// used up to now. What it used without a limit is nobody's debt.
func (c *controller) activate(m *member, before State, now time.Duration) {
	if m.state != StateActive || before == StateActive {
		return
	}
	usage, err := m.group.Usage()
	if err != nil {
		c.suspend(m, err.Error())
		return
	}
	m.facts.At, m.facts.Usage = c.opts.Clock(), usage
	if s, ok := c.saved[m.group.Path()]; ok && before == StateNoLimit {
		s.Ledger.At, s.Ledger.Usage = m.facts.At, usage
		c.saved[m.group.Path()] = s
	}
	m.ledger = c.openLedger(m)
	m.peak = peak{}
	m.due, m.rereadDue = now, now
}

// specDiffers warns where the spec names another limit than the group has.
func (m *member) specDiffers() string {
	limit, period, err := m.limit.Pair()
	if err != nil || limit < 0 || m.workload.Limit <= 0 {
		return ""
	}
	if cgroup.Grants(m.workload.Limit, m.limit) {
		return ""
	}
	return fmt.Sprintf("spec.cpu.limit is %g CPUs, the group's limit is %g CPUs: the group's counts",
		m.workload.Limit, unit.Rate(limit, period))
}
