package quota

import (
	"errors"
	"maps"
	"time"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/burst"
	"github.com/berth-project/berth/internal/capability/burst/credit"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
)

// Keys of the ledgers in the checkpoint.
const (
	keyLedgers = "ledgers"
	keyCarried = "carried"
)

// SavedLedger is a ledger with the identity of the group whose use it counts.
type SavedLedger struct {
	Group  hostfs.ID     `json:"group"`
	Ledger credit.Ledger `json:"ledger"`
	// Left is the cpu.max that was left to another writer, empty otherwise.
	Left cgroup.Value `json:"left,omitempty"`
}

// Describe implements capability.Capability.
func (*Groups) Describe() capability.Info { return burst.Info() }

// Decide implements capability.Decider. The Decision has no settings: each value of burst is one of Moves, written
// at the moment when credit pays for it. Most moves come from Look.
func (q *Groups) Decide(n *capability.Node) capability.Decision {
	q.set.second = n.Now
	if n.Config != nil {
		q.pool.Configure(n.Config, n.Policies.SharePoolPercent)
	}
	if q.pool.Take(n) {
		q.moved = n.Now
		for _, m := range q.set.order {
			m.quotaDue = n.Now // together with the CPUs, which are written before the next check
		}
	}
	q.set.unlimited, q.set.reserved = n.Unlimited, n.Reserved
	q.follow(n.Now)
	for _, m := range q.set.order {
		if m.Group != nil && m.state != burst.StatePending && q.set.unlimited[m.Group.Path()] {
			m.Max.Retake()
			q.settleState(m) // burst's raise is undone before the quota is removed
		}
	}
	q.set.above.Round(n.Now)
	q.gatherPods(n.Now)
	if err := q.sample(n.Now); err != nil {
		q.opts.Fail("node use", err)
	}
	if q.recheckIdle(n.Now) {
		q.gatherPods(n.Now) // otherwise the quotas of their pods would bound them until the next second
	}
	q.share(n.Now)
	return capability.Decision{}
}

// Outcome implements capability.Capability.
func (q *Groups) Outcome(time.Time) capability.Outcome {
	out := capability.Outcome{Node: capability.Sections{burst.KeyNode: burst.NodeStatusOf(&q.pool, q.worst)}}
	out.Rows = make([]capability.Row, 0, len(q.set.order))
	for _, m := range q.set.order {
		row := m.row()
		out.Rows = append(out.Rows, row)
		if s, reports := row.Section.(*burst.Status); reports {
			out.Shown.Quotas = append(out.Shown.Quotas, s.Quota(row.Name))
		}
	}
	return out
}

// State implements capability.Rememberer.
func (q *Groups) State() capability.Sections { return q.ledgers.state(q.set.order) }

// Recall implements capability.Capability.
func (q *Groups) Recall(saved capability.Sections) error {
	var before accounts
	if err := errors.Join(saved.Decode(keyLedgers, &before.saved), saved.Decode(keyCarried, &before.carried)); err != nil {
		return err
	}
	maps.Copy(q.ledgers.saved, before.saved)
	maps.Copy(q.ledgers.carried, before.carried)
	return nil
}

// row returns what the agent reports of m.
func (m *Group) row() capability.Row {
	row := capability.Row{Workload: capability.Workload{
		Name:         m.workload.Name,
		File:         m.workload.File,
		Group:        m.workload.Cgroup,
		State:        m.state,
		Reason:       m.reason,
		Since:        m.since,
		Policy:       m.workload.Burst.Policy,
		PolicySource: m.workload.Burst.Source,
		Warnings:     m.warnings(),
	}}
	if m.Group == nil {
		return row
	}
	row.Group = m.Group.Path()
	if m.hasQuota() {
		row.Section = m.status()
	}
	return row
}

// hasQuota reports whether the quota of m's group is burst's, or was left to another writer.
func (m *Group) hasQuota() bool { return m.state == burst.StateActive || m.state == burst.StateDrift }

// status returns what burst reports of m and its group.
func (m *Group) status() *burst.Status {
	s := m.law.Status()
	s.Limited, s.AncestorThrottled = m.limited, m.ancestorThrottled
	s.Periods, s.Throttled = m.throttling.Periods, m.throttling.Throttled
	s.Writes, s.Refused = m.writes()
	return &s
}

// Measure implements capability.Measured.
func (q *Groups) Measure(add func(capability.Sample)) {
	node := burst.NodeStatusOf(&q.pool, q.worst)
	node.Measure(add)
	for _, m := range q.set.order {
		looked := m.state == burst.StateActive && m.readThrottling() == nil // on an error the next check reports it
		m.law.Measure(m.state, looked, m.status(), add)
	}
}

// Record implements capability.Recorded, for the workloads whose quotas Outcome shows.
func (q *Groups) Record(add func(capability.Moment)) {
	at, busy := q.pool.Busy()
	add(capability.Moment{Used: busy, At: at})
	for _, m := range q.set.order {
		if m.Group == nil || !m.hasQuota() {
			continue
		}
		moment := m.law.Moment(m.workload.Name)
		moment.Periods, moment.Throttled, moment.Above = m.throttling.Periods, m.throttling.Throttled, m.ancestorThrottled
		add(moment)
	}
}
