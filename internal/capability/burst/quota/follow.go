package quota

import (
	"errors"
	"fmt"
	"time"

	"github.com/berth-project/berth/internal/capability/burst"
	"github.com/berth-project/berth/internal/capability/burst/credit"
	"github.com/berth-project/berth/internal/capability/burst/follower"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/node/roster"
)

// follow copies the state of the roster: workloads that came, went or changed, and their groups.
func (q *Groups) follow(now time.Duration) {
	if changes := q.roster.Changes(); changes != q.taken {
		q.taken = changes
		q.takeEntries()
	}
	for _, m := range q.set.order {
		if m.workload != m.entry.Workload {
			q.takeWorkload(m, now)
		}
		switch {
		case m.entry.Group == nil:
			q.enter(m, burst.StatePending, m.entry.Reason)
		case m.Group == nil:
			q.attach(m, now)
		}
	}
}

// takeEntries makes a Group for each of the roster's entries, and releases the groups that the roster has closed.
func (q *Groups) takeEntries() {
	before := q.set.byEntry
	q.set.byEntry, q.set.order = make(map[*roster.Entry]*Group, len(before)), q.set.order[:0]
	for _, e := range q.roster.Entries() {
		m := before[e]
		if m == nil {
			m = &Group{entry: e, phase: phase{since: q.opts.Now(), state: burst.StatePending}}
		}
		delete(before, e)
		q.set.byEntry[e], q.set.order = m, append(q.set.order, m)
		if m.Group != e.Group {
			q.drop(m)
		}
	}
	for _, m := range before {
		q.drop(m)
	}
}

// takeWorkload stores what a workload asks for now. The ledger outlives the policy: switching it off and on adds no
// credit. A change ends a drift.
func (q *Groups) takeWorkload(m *Group, now time.Duration) {
	before, w := m.workload, m.entry.Workload
	m.workload, m.rereadDue = w, 0
	m.law.Name, m.law.Policy, m.law.Spec = w.Name, credit.Policy(w.Burst), w.Limit
	changed := before != nil && !before.Equal(*w)
	if changed {
		m.law.ForeignBurst = false
	}
	if changed && m.Burst != nil {
		m.Burst.Retake()
	}
	if m.Group == nil || m.state == burst.StateDrift && !changed {
		return
	}
	switch b, err := m.Group.Bandwidth(); {
	case err != nil:
		q.suspend(m, err.Error())
	case m.state == burst.StateDrift:
		q.retake(m, b, now)
	default:
		q.resume(m, b, now)
	}
}

// suspend releases a group that cannot be read any more and says why; the reconciler restores its values.
func (q *Groups) suspend(m *Group, reason string) {
	q.roster.Release(m.entry, reason)
	q.drop(m)
}

// drop releases the group of m and remembers its ledger, in case the group comes back.
func (q *Groups) drop(m *Group) {
	if m.Group == nil {
		return
	}
	if m.state == burst.StateActive || m.state == burst.StateDrift {
		q.ledgers.remember(m)
	}
	if path := m.Group.Path(); q.set.byPath[path] == m {
		delete(q.set.byPath, path)
	}
	for _, f := range m.nested {
		f.Close()
	}
	m.made, m.refused = m.writes()
	m.Limits, m.nested, m.limited = follower.Limits{}, nil, ""
	q.enter(m, burst.StatePending, m.entry.Reason)
}

// attach opens the group of m and starts its ledger.
func (q *Groups) attach(m *Group, now time.Duration) {
	err := q.open(m, now)
	if err == nil {
		q.set.byPath[m.Group.Path()] = m
		q.quotas.Retry(m.Group.Path())
		return
	}
	if errors.Is(err, cgroup.ErrNoGroup) {
		q.suspend(m, err.Error())
		return
	}
	m.Limits = follower.Limits{}
	if q.enter(m, burst.StatePending, err.Error()) {
		q.opts.Log.Info("workload waits", "workload", m.workload.Name, "reason", err.Error())
	}
}

// open reads everything about a newly found group and puts m into its first state.
func (q *Groups) open(m *Group, now time.Duration) error {
	m.Group, m.ID, m.nested = m.entry.Group, m.entry.ID, map[string]*follower.Follower{}
	for _, controller := range []cgroup.Controller{cgroup.CPU, cgroup.CPUAcct} {
		if err := m.Group.Has(controller); err != nil {
			return fmt.Errorf("burst needs the %s controller: %w", controller, err)
		}
	}
	bandwidth, err := m.Group.Bandwidth()
	if err != nil {
		return fmt.Errorf("read bandwidth: %w", err)
	}
	usage, err := m.Group.Usage()
	if err != nil {
		return fmt.Errorf("read usage: %w", err)
	}
	q.watch(m, bandwidth)
	m.law.Reset(credit.Facts{At: q.opts.Clock(), Usage: usage, Slice: q.opts.Slice(), Tick: q.opts.Tick})
	m.due, m.rereadDue = now, now
	m.takeBandwidth(bandwidth)
	m.takeCPUs(q.pool.Online)
	q.ledgers.openLedger(m)
	if s, ok := q.ledgers.saved[m.Group.Path()]; ok && s.Group == m.ID && s.Left != "" && s.Left == bandwidth.Max() {
		const reason = "left to whoever wrote it, before the agent was restarted"
		m.Max.Leave(now, bandwidth.Max(), reason)
		q.enter(m, burst.StateDrift, reason)
		return nil
	}
	q.settleState(m)
	return nil
}

// watch makes the reconciler follow the quota and the burst of m's group from their current values.
func (q *Groups) watch(m *Group, b cgroup.Bandwidth) {
	m.made, m.refused = m.writes()
	m.Max = q.quotas.Quota(m.Setting(cgroup.KnobMax, m.workload.Name), m.writers(), b.Max())
	m.Burst = q.quotas.Quota(m.Setting(cgroup.KnobBurst, m.workload.Name), burstWriters(b), b.BurstValue())
}

// retake lets the law decide about a quota that was left to another writer.
func (q *Groups) retake(m *Group, b cgroup.Bandwidth, now time.Duration) {
	q.watch(m, b)
	m.law.ForeignBurst = false
	q.resume(m, b, now)
}

// resume makes m enter the state that follows from its bandwidth b, as just read, and from the known facts. If m just
// became active, checks start from its use until now: use without a limit is no debt. The first check reads all other
// values.
func (q *Groups) resume(m *Group, b cgroup.Bandwidth, now time.Duration) {
	m.takeBandwidth(b)
	before := m.state
	if q.settleState(m); m.state != burst.StateActive || before == burst.StateActive {
		return
	}
	usage, err := m.Group.Usage()
	if err != nil {
		q.suspend(m, err.Error())
		return
	}
	m.law.Begin(q.opts.Clock(), usage)
	if s, ok := q.ledgers.saved[m.Group.Path()]; ok && before == burst.StateNoLimit {
		s.Ledger.At, s.Ledger.Usage = m.law.Facts.At, usage
		q.ledgers.saved[m.Group.Path()] = s
	}
	q.ledgers.openLedger(m)
	m.due, m.rereadDue = now, now
}

// settleState makes m enter the state that follows from the known facts, and reads nothing from the group.
func (q *Groups) settleState(m *Group) {
	switch quota, _, err := m.Max.Original().Pair(); {
	case err != nil:
		q.enter(m, burst.StatePending, err.Error())
	case !m.workload.Burst.Wanted():
		q.enter(m, burst.StateOff, offReason(m.workload.Burst))
	case m.Group != nil && q.set.unlimited[m.Group.Path()]:
		q.enter(m, burst.StateOff, "it runs without a quota, on exclusive CPUs")
	case quota < 0:
		q.enter(m, burst.StateNoLimit, "the group has no quota: there is nothing to burst over")
	default:
		q.enter(m, burst.StateActive, "")
	}
}

func offReason(b workload.Burst) string {
	if b.Off != nil {
		return b.Off.Error()
	}
	return "policy none"
}
