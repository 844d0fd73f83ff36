package agent

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/burst"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/kernel"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/reconcile"
	"github.com/berth-project/berth/internal/unit"
)

const (
	// quotaEvery is how often the quota is read back: systemd's daemon-reload,
	// for one, rewrites it.
	quotaEvery = time.Second
	// rereadEvery is how often everything else about a group is read: burst,
	// CPUs, counters.
	rereadEvery = 5 * time.Second
)

// look is one turn of observe, decide, plan, apply for one group.
func (c *controller) look(m *member) {
	usage, err := m.group.Usage()
	now := c.opts.Clock()
	if err != nil {
		c.suspend(m, err.Error())
		return
	}
	c.late(now - m.due)
	used := usage.Since(m.facts.Usage)
	m.facts.At, m.facts.Usage = now, usage
	m.peak.add(now, usage, m.facts)
	if err := c.readBack(m, now, used); err != nil {
		c.suspend(m, err.Error())
		return
	}
	if m.state != StateActive {
		return
	}
	if p := c.pods[m.workload.Pod.Group]; p != nil {
		p.charge(now)
	}
	m.ledger, m.decision = burst.Decide(m.policy, m.ledger, m.facts, m.cadence(used))
	m.due = now + m.decision.Next
	c.tellLimited(m)
	if m.decision.Write && m.decision.Quota != m.facts.Standing && !m.heldBack(now) {
		c.commit(m, now, c.wanted(m, cgroup.KnobMax))
	}
}

// mayBeThrottled says whether the counters are worth reading at once: a group
// can only have been throttled in a period in which it used its whole limit, and
// two looks a period apart see at least half of that between them.
func (m *member) mayBeThrottled(used unit.CPUTime) bool {
	armed := m.facts.Standing > m.facts.LimitQuota
	return armed && used.Seconds() >= m.facts.LimitQuota.CPUSeconds()/2
}

// heldBack says whether the decided write has to wait after one of its kind that
// was refused.
func (m *member) heldBack(now time.Duration) bool {
	return m.retryOf(cgroup.KnobMax, m.decision.Quota < m.facts.Standing).Held(now)
}

// retryOf returns what holds back a write of its kind.
func (m *member) retryOf(k cgroup.Knob, lowers bool) *reconcile.Retry {
	switch {
	case k == cgroup.KnobBurst:
		return &m.bursting
	case lowers:
		return &m.lowering
	default:
		return &m.raising
	}
}

// readBack reads as little as is due: the throttling counters when the group
// may have been throttled, the quota every second, everything now and then or
// when one of the two moved.
func (c *controller) readBack(m *member, now time.Duration, used unit.CPUTime) error {
	due := now >= m.rereadDue
	if !due && m.mayBeThrottled(used) {
		before := m.throttling.Throttled
		if err := m.readThrottling(); err != nil {
			return err
		}
		due = m.throttling.Throttled > before
	}
	if !due && now >= m.quotaDue {
		m.quotaDue = now + quotaEvery
		stands, err := m.group.Stands(m.facts.Standing, m.facts.Period)
		if err != nil {
			return fmt.Errorf("read quota: %w", err)
		}
		due = !stands
	}
	if !due {
		return nil
	}
	m.quotaDue, m.rereadDue = now+quotaEvery, now+rereadEvery
	return c.reread(m, now)
}

// reread reads all there is to know of the group: quota, period, burst,
// throttling, CPUs. The quotas above it are read every second for all (share).
func (c *controller) reread(m *member, now time.Duration) error {
	if err := m.readThrottling(); err != nil {
		return err
	}
	bandwidth, err := m.group.Bandwidth()
	if err != nil {
		return fmt.Errorf("read bandwidth: %w", err)
	}
	c.checkMax(m, bandwidth, now)
	if m.state != StateActive {
		return nil
	}
	c.take(m, bandwidth)
	c.checkNested(m)
	c.checkBurst(m, bandwidth, now)
	return nil
}

func (m *member) readThrottling() error {
	throttling, err := m.group.Throttling()
	if err != nil {
		return fmt.Errorf("read throttling: %w", err)
	}
	m.throttling = throttling
	return nil
}

// take puts what stands into the facts. The limit follows the period: the
// kernel doubles a period its timer cannot follow, with quota and burst.
func (c *controller) take(m *member, b cgroup.Bandwidth) {
	m.limit = cgroup.ScaleTo(m.limit, b.Period)
	m.facts.LimitQuota = 0 // decides nothing and writes nothing
	if quota, period, err := m.limit.Pair(); err == nil && period == b.Period && !m.unsettled {
		m.facts.LimitQuota = quota
	}
	m.facts.Period, m.facts.Standing, m.facts.Burst = b.Period, b.Quota, b.Burst
	m.kernelBurst = kernel.Unsupported
	if b.HasBurst {
		m.kernelBurst = kernel.Supported
	}
	m.facts.CPUs = c.node.online.Size()
	if cpus, err := m.group.EffectiveCPUs(); err == nil && !cpus.IsEmpty() {
		m.facts.CPUs = cpus.Size()
	}
}

// wanted returns the setting that m's policy and last decision ask for.
func (c *controller) wanted(m *member, k cgroup.Knob) plan.Setting {
	s := plan.Setting{
		Target:   cgroupfile.Target(m.group.Path(), k),
		ID:       m.identity,
		Owner:    plan.OwnerBurst,
		Workload: m.workload.Name,
	}
	switch k {
	case cgroup.KnobMax:
		s.Value = plan.Value(cgroup.MaxValue(m.decision.Quota, m.facts.Period))
		s.Why = fmt.Sprintf("%s: credit %.3f of %.3f CPU-seconds, reserve %.3f, exposure %.3f",
			m.decision.Reason, m.ledger.Credit, m.decision.Capacity, m.decision.Reserve, m.decision.Exposure)
	case cgroup.KnobBurst:
		s.Value = plan.Value(cgroup.BurstValue(m.burstWanted(), m.facts.Period))
		s.Why = fmt.Sprintf("policy %s: the kernel's own burst, at most the limit's quota", m.workload.Burst.Policy)
	}
	return s
}

// commit plans the settings against what stands, applies them and takes over
// what the kernel made of them.
func (c *controller) commit(m *member, now time.Duration, settings ...plan.Setting) {
	path := m.group.Path()
	observed := map[plan.Target]plan.Value{
		cgroupfile.Target(path, cgroup.KnobMax):   plan.Value(cgroup.MaxValue(m.facts.Standing, m.facts.Period)),
		cgroupfile.Target(path, cgroup.KnobBurst): plan.Value(cgroup.BurstValue(m.facts.Burst, m.facts.Period)),
	}
	quota := m.facts.Standing
	if slices.ContainsFunc(settings, func(s plan.Setting) bool { return cgroupfile.Knob(s.Target) == cgroup.KnobMax }) {
		quota = m.decision.Quota
	}
	followers := map[string]*follower{}
	if pod := c.pods[m.workload.Pod.Group]; pod != nil {
		followers[pod.group.Path()] = pod.follower
		settings = append(settings, pod.wanted(m, quota)...)
	}
	for _, f := range m.nested {
		followers[f.group.Path()] = f
		settings = append(settings, m.wantedBelow(f, quota)...)
	}
	for _, f := range followers {
		f.observe(observed)
	}
	kinds := c.applier.Kinds()
	for _, r := range c.applier.Apply(plan.Order(kinds, plan.Diff(kinds, settings, observed))) {
		if f := followers[r.Change.Object]; f != nil {
			c.brought(f, r)
		} else {
			c.applied(m, r, now)
		}
	}
}

// applied takes over the result of one change.
func (c *controller) applied(m *member, r apply.Result, now time.Duration) {
	if r.Wrote {
		m.writes++
	}
	knob := cgroupfile.Knob(r.Change.Target)
	lowers := knob == cgroup.KnobMax && m.decision.Quota < m.facts.Standing
	hold := m.retryOf(knob, lowers)
	if r.Applied() {
		c.stands(m, knob, cgroup.Value(r.Effective))
	}
	if r.Err == nil {
		m.lastError, *hold = "", reconcile.Retry{}
		return
	}
	m.writeErrors++
	m.rereadDue = now
	switch {
	case errors.Is(r.Err, apply.ErrGone):
		c.suspend(m, r.Err.Error())
	case errors.Is(r.Err, apply.ErrChanged):
		// Somebody wrote since the last look: the next one reads everything.
	case lowers:
		hold.Failed(now, reconcile.LastLowering)
		c.refused(m, r)
		c.lowerAsFarAsPossible(m, r)
	default:
		hold.Failed(now, reconcile.LastRetry)
		c.refused(m, r)
	}
}

// refused tells of a write that the kernel or the journal did not take.
func (c *controller) refused(m *member, r apply.Result) {
	m.lastError = r.Err.Error()
	c.fail("write for workload "+m.workload.Name, r.Err)
}

// lowerAsFarAsPossible follows a refused way back to the limit. The kernel takes
// no quota below the burst in force, nor, on v1, one whose ratio is below a
// child's; both may be somebody else's. What it takes is written.
func (c *controller) lowerAsFarAsPossible(m *member, refused apply.Result) {
	r, blocker := c.writeLowest(m.group, refused.Change)
	if blocker == "" {
		return
	}
	m.lastError = "the kernel does not take the limit because of " + blocker
	if r.Wrote {
		m.writes++
	}
	if r.Applied() {
		c.stands(m, cgroupfile.Knob(r.Change.Target), cgroup.Value(r.Effective))
	}
}

// stands records a value that was read back after a write.
func (c *controller) stands(m *member, k cgroup.Knob, v cgroup.Value) {
	n, period, err := v.Pair()
	if err != nil {
		c.fail("read back", err)
		return
	}
	if k == cgroup.KnobBurst {
		m.burstStanding, m.facts.Burst = v, n
		return
	}
	m.standing, m.facts.Standing = v, n
	m.limit = cgroup.ScaleTo(m.limit, period)
	m.facts.Period = period
}

// late records how much later than planned a look came.
func (c *controller) late(by time.Duration) {
	by = max(by, 0)
	c.worstLateness = max(c.worstLateness, by)
	c.lateness.observe(by)
}

// tellLimited says once why a group cannot get what its policy asks for.
func (c *controller) tellLimited(m *member) {
	reason := ""
	switch m.decision.Reason {
	case burst.CreditTooSmall:
		reason = fmt.Sprintf("the credit of %.3f CPU-seconds is less than the %.3f that one raise must reserve: "+
			"raise cfsQuotaBurstPeriodSeconds or cfsQuotaBurstPercent", m.decision.Capacity, m.decision.Needed)
	case burst.AncestorCap, burst.AncestorCapped:
		reason = fmt.Sprintf("group %s above allows %.3f CPUs", m.capGroup, m.facts.Cap)
	case burst.GuardFull, burst.GuardCapped:
		reason = c.node.shortage(m.facts.Ceiling)
		if m.resizing {
			reason = "the pod is being resized"
		}
	case burst.NothingToGain:
		reason = "the limit is all that its CPUs, or the policy's percentage, allow"
	}
	if reason == "" {
		reason = c.throttles(m)
	}
	before := m.limited
	m.limited = reason
	if c.node.unknown() {
		return // a moment after the start
	}
	if reason != "" && (m.toldReason != m.decision.Reason || before == "") {
		c.opts.Log.Info(v1alpha1.EventCPUBurstLimited, "workload", m.workload.Name, "reason", reason)
	}
	m.toldReason = m.decision.Reason
}
