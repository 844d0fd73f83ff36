package quota

import (
	"cmp"
	"fmt"
	"time"

	"github.com/berth-project/berth/internal/capability/burst"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/engine/reconcile"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

const (
	// quotaEvery is how often the quota is read back: systemd's daemon-reload, for example, rewrites it.
	quotaEvery = time.Second
	// rereadEvery is how often everything else about a group is read: burst, CPUs, counters.
	rereadEvery = 5 * time.Second
	// idleRereadEvery is rereadEvery for a group that does not burst: nothing is decided by the rest, and a group that
	// begins to burst is read as a whole.
	idleRereadEvery = 30 * time.Second
)

// looks says when a group is checked.
type looks struct {
	// due is the next check, quotaDue the next check of the quota, rereadDue the next full reading.
	due, quotaDue, rereadDue time.Duration
}

// Look observes one group of the last Due and decides, unless the group was released.
func (q *Groups) Look(i int) {
	m := q.set.due[i]
	if m.state != burst.StateActive {
		return
	}
	usage, err := m.Group.Usage()
	now := q.opts.Clock()
	if err != nil {
		q.suspend(m, err.Error())
		return
	}
	q.worst = max(q.worst, now-m.due)
	q.opts.Late(max(now-m.due, 0))
	used := m.law.Look(now, usage)
	read, err := q.readBack(m, now, used)
	if err != nil {
		q.suspend(m, err.Error())
		return
	}
	if m.state != burst.StateActive {
		return
	}
	var own []reconcile.Move
	if read {
		own = m.newBurst(now)
	}
	if p := q.set.pods[m.workload.Pod.Group]; p != nil {
		p.Charge(now)
	}
	m.law.Decide(used)
	m.due = now + m.law.Decision.Next
	q.reportLimited(m)
	if m.law.Decision.Write {
		if move := m.quotaMove(); !m.Max.Held(now, move.Value) {
			own = append(own, move)
		}
	}
	switch {
	case len(own) > 0:
		q.move(m, own...)
	case read:
		q.moves = append(q.moves, m.below()...)
	}
}

// readBack reads as little as is due, and reports whether that was everything. It reads the throttling counters if the
// group may have been throttled, and the quota every second, with the CPUs for a while after the shared CPUs changed.
// It reads everything every rereadEvery, or when throttling or quota moved.
func (q *Groups) readBack(m *Group, now time.Duration, used unit.CPUTime) (all bool, err error) {
	soon := now + Shared // as checks that share a wake-up come
	due := soon >= m.rereadDue
	if !due && m.law.MayBeThrottled(used) {
		before := m.throttling.Throttled
		if err := m.readThrottling(); err != nil {
			return false, err
		}
		due = m.throttling.Throttled > before
	}
	if !due && soon >= m.quotaDue {
		m.quotaDue = now + quotaEvery
		if now-q.moved < rereadEvery { // systemd may take seconds to move a group to its new CPUs
			m.takeCPUs(q.pool.Online)
		}
		stands, err := m.Group.Stands(m.law.Facts.Standing, m.law.Facts.Period)
		if err != nil {
			return false, fmt.Errorf("read quota: %w", err)
		}
		due = !stands
	}
	if !due {
		return false, nil
	}
	m.quotaDue, m.rereadDue = now+quotaEvery, now+rereadEvery
	return true, q.reread(m, now)
}

// reread reads all facts of the group: quota, period, burst, throttling, CPUs. The quotas above it are read every
// second for all groups (share).
func (q *Groups) reread(m *Group, now time.Duration) error {
	if err := m.readThrottling(); err != nil {
		return err
	}
	bandwidth, err := m.Group.Bandwidth()
	if err != nil {
		return fmt.Errorf("read bandwidth: %w", err)
	}
	switch q.quotas.See(now, m.Max, m.writers(), bandwidth.Max()) {
	case reconcile.SeenOriginal: // credit stays, cut to the new capacity
		m.law.Resized()
		q.settleState(m)
	case reconcile.SeenLeft:
		q.enter(m, burst.StateDrift, m.Max.Left())
	case reconcile.SeenExpected, reconcile.SeenForeign, reconcile.SeenReturned:
	}
	if m.state != burst.StateActive {
		return nil
	}
	m.law.Facts.Slice = q.opts.Slice()
	m.takeBandwidth(bandwidth)
	m.takeCPUs(q.pool.Online)
	q.checkNested(m, now)
	if m.mayHaveBurst() {
		q.quotas.See(now, m.Burst, burstWriters(bandwidth), bandwidth.BurstValue())
		m.law.ForeignBurst = m.Burst.Left() != "" || bandwidth.Burst > 0 && !q.quotas.Journaled(m.Burst)
	}
	return nil
}

// mayHaveBurst reports whether the policy asks for the kernel's burst, and the group can have one.
func (m *Group) mayHaveBurst() bool {
	return m.workload.Burst.KernelBurst && m.law.Facts.HasBurst && m.law.Facts.LimitQuota > 0
}

// writers says what another program's quota of m's group means: the limit of the workload's specification is a resize.
// A held resize is written before the pod's status says that the kubelet does not hold it any more.
func (m *Group) writers() plan.Writers {
	return plan.Writers{Limits: [2]unit.CPUs{m.workload.Limit, m.workload.Asked}, InForce: m.workload.InForce, Lifted: true, PutsBack: true, Chosen: true}
}

// burstWriters says what another program's burst means: no specification names it, and every write of a burst is
// deliberate.
func burstWriters(b cgroup.Bandwidth) plan.Writers {
	return plan.Writers{Chosen: true, Meant: b.Burst > 0}
}

func (m *Group) readThrottling() error {
	throttling, err := m.Group.Throttling()
	if err != nil {
		return fmt.Errorf("read throttling: %w", err)
	}
	m.throttling = throttling
	return nil
}

// takeCPUs stores the number of the group's CPUs in the facts: what it may use in addition to its quota, and the
// largest useful quota, depend on it.
func (m *Group) takeCPUs(online cpuset.Set) {
	m.law.Facts.CPUs = online.Size()
	if cpus, err := m.Group.EffectiveCPUs(); err == nil && !cpus.IsEmpty() {
		m.law.Facts.CPUs = cpus.Size()
	}
}

// takeBandwidth stores quota, period and burst in the facts. The limit follows the period: the kernel doubles a period
// that its timer cannot follow, with quota and burst.
func (m *Group) takeBandwidth(b cgroup.Bandwidth) {
	m.law.Facts.LimitQuota = 0 // decides nothing and writes nothing
	if quota, period, err := m.Max.Original().Pair(); err == nil && period == b.Period && m.Max.IsSettled() {
		m.law.Facts.LimitQuota = quota
	}
	m.law.Facts.Period, m.law.Facts.Standing, m.law.Facts.Burst, m.law.Facts.HasBurst = b.Period, b.Quota, b.Burst, b.HasBurst
}

// quotaMove returns the quota of the last decision. The kernel accepts none below the burst in force.
func (m *Group) quotaMove() reconcile.Move {
	return reconcile.Move{
		Quota: m.Max, Value: cgroup.MaxValue(max(m.law.Decision.Quota, m.law.Facts.Burst), m.law.Facts.Period),
		Workload: m.workload.Name, Why: m.law.Why(),
	}
}

// newBurst returns the move of the kernel's burst, if the policy asks for another one than the group has, and assumes
// for the decision that the move is made. A burst that is not Berth's is its writer's: the kubelet has a burst of its
// own (kubernetes/enhancements#6333). While it is left to another writer the quota still moves, and the law includes
// that burst.
func (m *Group) newBurst(now time.Duration) []reconcile.Move {
	if !m.mayHaveBurst() || m.law.ForeignBurst {
		return nil
	}
	move := m.burstMove()
	if m.Burst.Held(now, move.Value) {
		return nil
	}
	m.law.Facts.Burst = m.law.KernelBurst()
	return []reconcile.Move{move}
}

// burstMove returns the kernel's own burst that the policy asks for.
func (m *Group) burstMove() reconcile.Move {
	return reconcile.Move{
		Quota: m.Burst, Value: cgroup.BurstValue(m.law.KernelBurst(), m.law.Facts.Period), Workload: m.workload.Name,
		Why: fmt.Sprintf("policy %s: the kernel's own burst, at most the limit's quota", m.workload.Burst.Policy),
	}
}

// move adds moves of m's own group together with those of the groups that follow it, and assumes that they are made.
func (q *Groups) move(m *Group, own ...reconcile.Move) {
	for _, v := range own {
		q.own[v.Quota] = m
		if v.Quota == m.Max {
			m.law.Facts.Standing = m.law.Decision.Quota
		}
	}
	q.moves = append(q.moves, own...)
	if pod := q.set.pods[m.workload.Pod.Group]; pod != nil {
		q.moves = append(q.moves, pod.Wanted(&m.law)...)
	}
	q.moves = append(q.moves, m.below()...)
}

// below returns the moves of the copies of m's limit.
func (m *Group) below() (moves []reconcile.Move) {
	for _, f := range m.nested {
		moves = append(moves, f.Moves(m.law.Below(f.Own(), m.law.Facts.Standing))...)
	}
	return moves
}

// Moves returns the values that were decided since the last Wrote.
func (q *Groups) Moves() []reconcile.Move { return q.moves }

// Wrote records what the kernel made of the moves.
func (q *Groups) Wrote(now time.Duration) {
	for _, v := range q.moves {
		m := q.own[v.Quota]
		if m == nil || m.Max != v.Quota && m.Burst != v.Quota {
			continue // a follower's, or released because the group is gone
		}
		m.takeOver(v.Quota)
		switch err := v.Quota.Err(); {
		case v.Quota.Gone():
			q.suspend(m, err.Error())
		case err != nil: // another writer wrote, or the kernel refused: the next check reads everything
			m.rereadDue = now
		}
	}
	clear(q.moves)
	clear(q.own)
	q.moves = q.moves[:0]
}

// takeOver updates the facts after a write of the quota or the burst of m.
func (m *Group) takeOver(written *reconcile.Quota) {
	n, period, err := written.Stands().Pair()
	switch {
	case err != nil:
	case written == m.Burst:
		m.law.Facts.Burst = n
	default:
		m.law.Facts.Standing, m.law.Facts.Period = n, period
	}
}

// reportLimited reports once why a group cannot get what its policy asks for.
func (q *Groups) reportLimited(m *Group) {
	reason, before := cmp.Or(m.law.Limited(&q.pool), q.set.throttles(m)), m.limited
	m.limited = reason
	if q.pool.Unknown() {
		return // a moment after the start
	}
	if reason != "" && (m.reportedReason != m.law.Decision.Reason || before == "") {
		q.opts.Limited(m.workload, m.law.Decision.Reason.String(), reason)
	}
	m.reportedReason = m.law.Decision.Reason
}

// idleBandwidth checks whether the quota is unchanged, and reads everything if it is not, or every idleRereadEvery.
func (m *Group) idleBandwidth(now time.Duration) (cgroup.Bandwidth, error) {
	f := &m.law.Facts
	if now < m.rereadDue {
		stands, err := m.Group.Stands(f.Standing, f.Period)
		if err != nil || stands {
			return cgroup.Bandwidth{Quota: f.Standing, Period: f.Period, Burst: f.Burst, HasBurst: f.HasBurst}, err
		}
	}
	m.rereadDue = now + idleRereadEvery
	if m.state == burst.StateDrift {
		m.rereadDue = now + rereadEvery // what is left to another writer is reported
	}
	return m.Group.Bandwidth()
}

// recheckIdle checks once a second the workload groups that are not checked otherwise: a limit may appear, a policy may
// change, and an offline group's use is counted. It reports whether any of them bursts from now on.
func (q *Groups) recheckIdle(now time.Duration) (some bool) {
	for _, m := range q.set.order {
		if m.Group != nil && m.state != burst.StateActive {
			q.recheck(m, now)
			some = some || m.state == burst.StateActive
		}
	}
	return some
}

// recheck checks one such group.
func (q *Groups) recheck(m *Group, now time.Duration) {
	b, err := m.idleBandwidth(now)
	if err != nil {
		q.suspend(m, err.Error())
		return
	}
	switch {
	case m.state != burst.StateDrift && m.Max.Rests(b.Quota, b.Period): // as nearly always
	case m.state == burst.StateDrift || !q.quotas.Journaled(m.Max): // otherwise it is about to be restored
		switch q.quotas.See(now, m.Max, m.writers(), b.Max()) {
		case reconcile.SeenLeft:
			return
		case reconcile.SeenReturned:
			q.retake(m, b, now)
			return
		case reconcile.SeenExpected, reconcile.SeenOriginal, reconcile.SeenForeign:
		}
	}
	q.resume(m, b, now)
}
