package agent

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/apply"
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

// looks is when a group is looked at.
type looks struct {
	// due is the next look, quotaDue the next look at the quota, rereadDue the
	// next full reading, locatedAt when the group was last looked up.
	due, quotaDue, rereadDue, locatedAt time.Duration
}

// writing is what became of the writes to a group.
type writing struct {
	// raising, lowering and bursting hold back a write after one of the same kind
	// that was refused: a full disk must not delay the way back to the limit.
	raising, lowering, bursting reconcile.Retry
	lastError                   string
	writes, writeErrors         uint64
}

// look is one turn of observe, decide, plan, apply for one group.
func (q *quotas) look(m *workloadGroup) {
	usage, err := m.group.Usage()
	now := q.opts.Clock()
	if err != nil {
		q.suspend(m, err.Error())
		return
	}
	q.late(now - m.due)
	used := m.law.Look(now, usage)
	if err := q.readBack(m, now, used); err != nil {
		q.suspend(m, err.Error())
		return
	}
	if m.state != StateActive {
		return
	}
	if p := q.pods[m.workload.Pod.Group]; p != nil {
		p.charge(now)
	}
	m.law.Decide(used)
	m.due = now + m.law.Decision.Next
	q.tellLimited(m)
	if m.law.Decision.Write && !m.heldBack(now) {
		q.commit(m, now, q.wanted(m, cgroup.KnobMax))
	}
}

// heldBack says whether the decided write has to wait after one of its kind that
// was refused.
func (m *workloadGroup) heldBack(now time.Duration) bool {
	return m.retryOf(cgroup.KnobMax, m.law.Lowers()).Held(now)
}

// retryOf returns what holds back a write of its kind.
func (w *writing) retryOf(k cgroup.Knob, lowers bool) *reconcile.Retry {
	switch {
	case k == cgroup.KnobBurst:
		return &w.bursting
	case lowers:
		return &w.lowering
	default:
		return &w.raising
	}
}

// readBack reads as little as is due: the throttling counters when the group
// may have been throttled, the quota every second, everything now and then or
// when one of the two moved.
func (q *quotas) readBack(m *workloadGroup, now time.Duration, used unit.CPUTime) error {
	due := now >= m.rereadDue
	if !due && m.law.MayBeThrottled(used) {
		before := m.throttling.Throttled
		if err := m.readThrottling(); err != nil {
			return err
		}
		due = m.throttling.Throttled > before
	}
	if !due && now >= m.quotaDue {
		m.quotaDue = now + quotaEvery
		stands, err := m.group.Stands(m.law.Facts.Standing, m.law.Facts.Period)
		if err != nil {
			return fmt.Errorf("read quota: %w", err)
		}
		due = !stands
	}
	if !due {
		return nil
	}
	m.quotaDue, m.rereadDue = now+quotaEvery, now+rereadEvery
	return q.reread(m, now)
}

// reread reads all there is to know of the group: quota, period, burst,
// throttling, CPUs. The quotas above it are read every second for all (share).
func (q *quotas) reread(m *workloadGroup, now time.Duration) error {
	if err := m.readThrottling(); err != nil {
		return err
	}
	bandwidth, err := m.group.Bandwidth()
	if err != nil {
		return fmt.Errorf("read bandwidth: %w", err)
	}
	q.checkMax(m, bandwidth, now)
	if m.state != StateActive {
		return nil
	}
	q.take(m, bandwidth)
	q.checkNested(m)
	q.checkBurst(m, bandwidth, now)
	return nil
}

func (m *workloadGroup) readThrottling() error {
	throttling, err := m.group.Throttling()
	if err != nil {
		return fmt.Errorf("read throttling: %w", err)
	}
	m.throttling = throttling
	return nil
}

// take puts what stands into the facts. The limit follows the period: the
// kernel doubles a period its timer cannot follow, with quota and burst.
func (q *quotas) take(m *workloadGroup, b cgroup.Bandwidth) {
	m.limit = cgroup.ScaleTo(m.limit, b.Period)
	m.law.Facts.LimitQuota = 0 // decides nothing and writes nothing
	if quota, period, err := m.limit.Pair(); err == nil && period == b.Period && !m.unsettled {
		m.law.Facts.LimitQuota = quota
	}
	m.law.Facts.Period, m.law.Facts.Standing, m.law.Facts.Burst = b.Period, b.Quota, b.Burst
	m.kernelBurst = kernel.Unsupported
	if b.HasBurst {
		m.kernelBurst = kernel.Supported
	}
	m.law.Facts.CPUs = q.node.online.Size()
	if cpus, err := m.group.EffectiveCPUs(); err == nil && !cpus.IsEmpty() {
		m.law.Facts.CPUs = cpus.Size()
	}
}

// wanted returns the setting that m's policy and last decision ask for.
func (q *quotas) wanted(m *workloadGroup, k cgroup.Knob) plan.Setting {
	s := plan.Setting{
		Target:   cgroupfile.Target(m.group.Path(), k),
		ID:       m.identity,
		Owner:    plan.OwnerBurst,
		Workload: m.workload.Name,
	}
	switch k {
	case cgroup.KnobMax:
		s.Value = plan.Value(cgroup.MaxValue(m.law.Decision.Quota, m.law.Facts.Period))
		s.Why = m.law.Why()
	case cgroup.KnobBurst:
		s.Value = plan.Value(cgroup.BurstValue(m.law.KernelBurst(), m.law.Facts.Period))
		s.Why = fmt.Sprintf("policy %s: the kernel's own burst, at most the limit's quota", m.workload.Burst.Policy)
	}
	return s
}

// commit plans the settings against what stands, applies them and takes over
// what the kernel made of them.
func (q *quotas) commit(m *workloadGroup, now time.Duration, settings ...plan.Setting) {
	path := m.group.Path()
	observed := map[plan.Target]plan.Value{
		cgroupfile.Target(path, cgroup.KnobMax):   plan.Value(cgroup.MaxValue(m.law.Facts.Standing, m.law.Facts.Period)),
		cgroupfile.Target(path, cgroup.KnobBurst): plan.Value(cgroup.BurstValue(m.law.Facts.Burst, m.law.Facts.Period)),
	}
	quota := m.law.Facts.Standing
	if slices.ContainsFunc(settings, func(s plan.Setting) bool { return cgroupfile.Knob(s.Target) == cgroup.KnobMax }) {
		quota = m.law.Decision.Quota
	}
	followers := map[string]*follower{}
	if pod := q.pods[m.workload.Pod.Group]; pod != nil {
		followers[pod.group.Path()] = pod.follower
		settings = append(settings, pod.wanted(&m.law, quota)...)
	}
	for _, f := range m.nested {
		followers[f.group.Path()] = f
		settings = append(settings, m.wantedBelow(f, quota)...)
	}
	for _, f := range followers {
		f.observe(observed)
	}
	kinds := q.applier.Kinds()
	for _, r := range q.applier.Apply(plan.Order(kinds, plan.Diff(kinds, settings, observed))) {
		if f := followers[r.Change.Object]; f != nil {
			q.brought(f, r)
		} else {
			q.applied(m, r, now)
		}
	}
}

// applied takes over the result of one change.
func (q *quotas) applied(m *workloadGroup, r apply.Result, now time.Duration) {
	if r.Wrote {
		m.writes++
	}
	knob := cgroupfile.Knob(r.Change.Target)
	lowers := knob == cgroup.KnobMax && m.law.Lowers()
	hold := m.retryOf(knob, lowers)
	if r.Applied() {
		q.stands(m, knob, cgroup.Value(r.Effective))
	}
	if r.Err == nil {
		m.lastError, *hold = "", reconcile.Retry{}
		return
	}
	m.writeErrors++
	m.rereadDue = now
	switch {
	case errors.Is(r.Err, apply.ErrGone):
		q.suspend(m, r.Err.Error())
	case errors.Is(r.Err, apply.ErrChanged):
		// Another writer wrote since the last look: the next one reads everything.
	case lowers:
		hold.Failed(now, reconcile.LastLowering)
		q.refused(m, r)
		q.lowerAsFarAsPossible(m, r)
	default:
		hold.Failed(now, reconcile.LastRetry)
		q.refused(m, r)
	}
}

// refused reports a write that the kernel or the journal did not take.
func (w *writer) refused(m *workloadGroup, r apply.Result) {
	m.lastError = r.Err.Error()
	w.fail("write for workload "+m.workload.Name, r.Err)
}

// lowerAsFarAsPossible follows a refused way back to the limit. The kernel takes
// no quota below the burst in force, nor, on v1, one whose ratio is below a
// child's; both may be another writer's. What it takes is written.
func (q *quotas) lowerAsFarAsPossible(m *workloadGroup, refused apply.Result) {
	r, blocker := q.writeLowest(m.group, refused.Change)
	if blocker == "" {
		return
	}
	m.lastError = "the kernel does not take the limit because of " + blocker
	if r.Wrote {
		m.writes++
	}
	if r.Applied() {
		q.stands(m, cgroupfile.Knob(r.Change.Target), cgroup.Value(r.Effective))
	}
}

// stands records a value that was read back after a write.
func (w *writer) stands(m *workloadGroup, k cgroup.Knob, v cgroup.Value) {
	n, period, err := v.Pair()
	if err != nil {
		w.fail("read back", err)
		return
	}
	if k == cgroup.KnobBurst {
		m.burstStanding, m.law.Facts.Burst = v, n
		return
	}
	m.standing, m.law.Facts.Standing = v, n
	m.limit = cgroup.ScaleTo(m.limit, period)
	m.law.Facts.Period = period
}

// tellLimited says once why a group cannot get what its policy asks for.
func (q *quotas) tellLimited(m *workloadGroup) {
	reason := m.law.Limited(&q.node.pool)
	if reason == "" {
		reason = q.throttles(m)
	}
	before := m.limited
	m.limited = reason
	if q.node.pool.Unknown() {
		return // a moment after the start
	}
	if reason != "" && (m.toldReason != m.law.Decision.Reason || before == "") {
		q.opts.Log.Info(v1alpha1.EventCPUBurstLimited, "workload", m.workload.Name, "reason", reason)
	}
	m.toldReason = m.law.Decision.Reason
}
