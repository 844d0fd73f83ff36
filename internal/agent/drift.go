package agent

import (
	"fmt"
	"math"
	"time"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/kernel"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/unit"
)

// Somebody else's write is answered in this order: the kernel's own doubling is
// nobody's; a value that the workload's spec names is a resize and becomes the
// original; anything else is written over once, since a daemon-reload of systemd
// or a restart of a runtime puts back what it knows without meaning it; after
// that the value belongs to whoever writes it.
const (
	// reassertAgain is how long a value must stand until writing it over once
	// more is no duel.
	reassertAgain = time.Minute
	// resumeAfter is how long the group must stand at its own limit until a
	// workload in StateDrift is taken up again.
	resumeAfter = 5 * time.Minute
)

// checkMax compares cpu.max with what should stand.
func (c *controller) checkMax(m *member, b cgroup.Bandwidth, now time.Duration) {
	have := b.Max()
	_, journaled := c.entry(m, cgroup.KnobMax)
	switch {
	case m.overwritten != "" && m.confirms(m.overwritten):
		// The spec came after its value, which was written over meanwhile.
		c.rebase(m, cgroup.KnobMax, m.overwritten)
		c.resized(m, cgroup.ScaleTo(m.overwritten, b.Period))
		m.standing, m.overwritten = have, ""
	case cgroup.Same(cgroup.KnobMax, have, m.standing):
		m.standing = have
	case !journaled:
		c.resized(m, have) // never written: it is the owner's own limit
	case m.confirms(have) || b.Quota < 0:
		// A limit that was lifted is not ours to put back: no group without a
		// quota is ever written.
		c.rebase(m, cgroup.KnobMax, have)
		c.resized(m, have)
	default:
		c.reassert(m, cgroup.KnobMax, m.standing, have, now)
		m.standing, m.overwritten = have, have
	}
}

// checkBurst compares the kernel's burst with what should stand and writes it
// when the policy starts.
func (c *controller) checkBurst(m *member, b cgroup.Bandwidth, now time.Duration) {
	if !m.workload.Burst.KernelBurst {
		return
	}
	c.take(m, b)
	if m.kernelBurst != kernel.Supported {
		return
	}
	have := b.BurstValue()
	want := c.wanted(m, cgroup.KnobBurst)
	_, journaled := c.entry(m, cgroup.KnobBurst)
	if journaled && !cgroup.Same(cgroup.KnobBurst, have, m.burstStanding) {
		if !c.reassert(m, cgroup.KnobBurst, m.burstStanding, have, now) {
			return
		}
	}
	m.burstStanding = have
	if !journaled && b.Burst >= m.policy.KernelBurst(m.facts.LimitQuota) {
		return // the owner gave it as much already
	}
	if now >= m.retryAt {
		c.commit(m, now, want)
	}
}

// confirms says whether the workload's own spec names the limit v.
func (m *member) confirms(v cgroup.Value) bool {
	quota, period, err := v.Pair()
	if err != nil || m.workload.Limit <= 0 || quota < 0 {
		return false
	}
	return math.Abs(float64(m.workload.Limit.Quota(period)-quota)) <= 1
}

// resized takes a new limit over. Credit stays, cut to the new capacity.
func (c *controller) resized(m *member, have cgroup.Value) {
	c.opts.Log.Info("limit changed", "workload", m.workload.Name, "from", string(m.limit), "to", string(have))
	m.limit, m.standing = have, have
	c.settleState(m)
}

// rebase makes the value that stands the journal's original.
func (c *controller) rebase(m *member, k cgroup.Knob, have cgroup.Value) {
	if err := c.journal.Rebase(plan.Target{Group: m.group.Path(), Knob: k}, have); err != nil {
		c.fail("journal", err)
	}
}

// reassert allows one write over a foreign value, and reports drift at the next.
func (c *controller) reassert(m *member, k cgroup.Knob, want, have cgroup.Value, now time.Duration) bool {
	last, before := m.reasserted[k]
	if !before || now-last >= reassertAgain {
		m.reasserted[k] = now
		c.opts.Log.Info("written by somebody else, asserting once more", "workload", m.workload.Name,
			"group", m.group.Path(), "knob", string(k), "was", string(want), "is", string(have))
		return true
	}
	c.drifts++
	m.driftSince = now
	reason := fmt.Sprintf("%s of %s is %q, Berth wrote %q: it is left to whoever writes it", k, m.group.Path(), have, want)
	c.enter(m, StateDrift, reason)
	c.remember(m)
	c.opts.Log.Warn(EventHostDrift, "workload", m.workload.Name, "reason", reason)
	return false
}

// recheckDrift takes a drifted workload up again when its own spec confirms what
// stands, or when its own limit has stood undisturbed for long enough.
func (c *controller) recheckDrift(m *member, b cgroup.Bandwidth, now time.Duration) {
	atLimit := cgroup.Same(cgroup.KnobMax, b.Max(), m.limit)
	if !atLimit && !m.confirms(b.Max()) {
		m.driftSince = now
	}
	if m.confirms(b.Max()) && !atLimit {
		c.rebase(m, cgroup.KnobMax, b.Max())
		c.resized(m, b.Max())
	} else if now-m.driftSince < resumeAfter {
		c.take(m, b)
		return
	}
	m.reasserted = map[cgroup.Knob]time.Duration{}
	m.standing, m.burstStanding = b.Max(), b.BurstValue()
	c.take(m, b)
	c.settleState(m)
	m.ledger = c.openLedger(m)
	m.due, m.rereadDue = now, now
}

// specDiffers warns where the spec names another limit than the group has.
func (m *member) specDiffers() string {
	limit, period, err := m.limit.Pair()
	if err != nil || limit < 0 || m.workload.Limit <= 0 {
		return ""
	}
	if d := m.workload.Limit.Quota(period) - limit; d >= -1 && d <= 1 {
		return ""
	}
	return fmt.Sprintf("spec.cpu.limit is %g CPUs, the group's limit is %g CPUs: the group's counts",
		m.workload.Limit, unit.Rate(limit, period))
}
