package quota

import (
	"errors"
	"fmt"
	"time"

	"github.com/berth-project/berth/internal/burst"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/reconcile"
	"github.com/berth-project/berth/internal/workload"
)

// soleEvery is how often the processes of a workload named by pids are
// compared with its group: another process in it takes the group away from it.
const soleEvery = 5 * time.Second

// Reasons why a workload waits.
var (
	errShared = errors.New("two workloads name this group")
	errOther  = errors.New("this process id belongs to another process now")
	errRoot   = errors.New("the root group has no limit and is never touched")
	errEnded  = errors.New("the container does not run")
)

// Find finds the group of every workload that wants one, and takes it away
// from those that may not have it any more.
func (q *Groups) Find(now time.Duration) {
	claims := map[string]int{}
	paths := make([]string, len(q.order))
	for i, m := range q.order {
		path, err := q.locate(m, now)
		if err != nil {
			q.suspend(m, err.Error())
			continue
		}
		paths[i] = path
		claims[path]++
		if m.group != nil && m.group.Path() != path {
			q.drop(m) // before anybody attaches: two may have changed places
		}
	}
	for i, m := range q.order {
		switch path := paths[i]; {
		case path == "":
		case claims[path] > 1:
			q.suspend(m, fmt.Sprintf("group %s: %v", path, errShared))
		case m.group == nil:
			q.attach(m, path, now)
		}
	}
}

// Locate returns the path of the group that a workload names: itself, by its unit, or as
// the one group that its processes have to themselves.
func Locate(host *cgroup.Host, w workload.Workload) (string, error) {
	if w.Cgroup != "" {
		return w.Cgroup, nil
	}
	if w.Unit != "" {
		path, err := host.UnitPath(w.Unit)
		if err != nil {
			return "", fmt.Errorf("systemdUnit %s: %w", w.Unit, err)
		}
		return path, nil
	}
	path, err := host.SoleGroup(w.PIDs)
	if err != nil {
		return "", fmt.Errorf("pids %v: %w", w.PIDs, err)
	}
	return path, nil
}

// suspend takes the group from m and says why; the reconciler puts back what was written.
func (q *Groups) suspend(m *Group, reason string) {
	q.drop(m)
	if q.enter(m, StatePending, reason) && !m.workload.Stopped() {
		q.opts.Log.Info("workload waits", "workload", m.workload.Name, "reason", reason)
	}
}

// attach opens the group of m and starts its ledger.
func (q *Groups) attach(m *Group, path string, now time.Duration) {
	group, err := q.host.Group(path)
	if err != nil {
		q.suspend(m, err.Error())
		return
	}
	m.group = group
	if err := q.open(m, now); err != nil {
		m.group = nil
		q.suspend(m, errors.Join(err, group.Close()).Error())
		return
	}
	q.byPath[path] = m
	q.writer.Retry(path)
	q.moved = true
}

// open reads everything about a group that was just opened and puts m into
// its first state.
func (q *Groups) open(m *Group, now time.Duration) error {
	for _, controller := range []cgroup.Controller{cgroup.CPU, cgroup.CPUAcct} {
		if err := m.group.Has(controller); err != nil {
			return fmt.Errorf("burst needs the %s controller: %w", controller, err)
		}
	}
	if err := m.group.Claim(); err != nil {
		return fmt.Errorf("claim group: %w", err)
	}
	id, err := m.group.ID(cgroup.CPU)
	if err != nil {
		return fmt.Errorf("identify group: %w", err)
	}
	bandwidth, err := m.group.Bandwidth()
	if err != nil {
		return fmt.Errorf("read bandwidth: %w", err)
	}
	usage, err := m.group.Usage()
	if err != nil {
		return fmt.Errorf("read usage: %w", err)
	}
	at := q.opts.Clock()
	m.id, m.offlineUse = id, usage
	m.forget()
	q.watch(m, bandwidth)
	m.law.Reset(burst.Facts{At: at, Usage: usage, Slice: q.opts.Slice, Tick: q.opts.Tick})
	m.due, m.rereadDue = now, now
	q.take(m, bandwidth)
	q.openLedger(m)
	if s, ok := q.saved[m.group.Path()]; ok && s.Group == id && s.Left != "" && s.Left == bandwidth.Max() {
		const reason = "left to whoever wrote it, before the agent was started anew"
		m.max.Leave(now, bandwidth.Max(), reason)
		q.enter(m, StateDrift, reason)
		return nil
	}
	q.settleState(m)
	return nil
}

// watch has the reconciler follow the quota and the burst of m's group from what stands.
func (q *Groups) watch(m *Group, b cgroup.Bandwidth) {
	setting := func(k cgroup.Knob) plan.Setting { return settingOf(m.group, m.id, k, m.workload.Name) }
	m.made, m.refused = m.writes()
	m.max = q.writer.Quota(setting(cgroup.KnobMax), m.writers(), b.Max())
	m.burst = q.writer.Quota(setting(cgroup.KnobBurst), burstWriters(), b.BurstValue())
}

// resume lets the law decide again about a group that was not looked at.
func (q *Groups) resume(m *Group, b cgroup.Bandwidth, now time.Duration) {
	before := m.state
	q.take(m, b)
	q.settleState(m)
	q.activate(m, before, now)
}

// activate starts the looks at a group that just became active, from what it has
// used up to now. What it used without a limit is no debt.
func (q *Groups) activate(m *Group, before State, now time.Duration) {
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

// settleState decides between the states that need no look.
func (q *Groups) settleState(m *Group) {
	switch quota, _, err := m.max.Original().Pair(); {
	case err != nil:
		q.enter(m, StatePending, err.Error())
	case !m.workload.Burst.Wanted():
		q.enter(m, StateOff, offReason(m.workload.Burst))
	case m.group != nil && q.unlimited[m.group.Path()]:
		q.enter(m, StateOff, "it runs without a quota, on exclusive CPUs")
	case quota < 0:
		q.enter(m, StateNoLimit, "the group has no quota: there is nothing to burst over")
	default:
		q.enter(m, StateActive, "")
	}
}

func offReason(b workload.Burst) string {
	if b.Off != nil {
		return b.Off.Error()
	}
	return "policy none"
}

// recheckIdle looks once a second at workload groups that are not looked at otherwise:
// a limit may appear, a policy may change, an offline group's use counts.
func (q *Groups) recheckIdle(now time.Duration) {
	for _, m := range q.order {
		if m.group == nil || m.state == StateActive {
			continue
		}
		b, err := m.group.Bandwidth()
		if err != nil {
			q.suspend(m, err.Error())
			continue
		}
		if m.state != StateDrift && q.writer.Journaled(m.max) {
			q.resume(m, b, now) // it is about to be put back
			continue
		}
		switch q.writer.See(now, m.max, m.writers(), b.Max()) {
		case reconcile.SeenLeft:
			continue
		case reconcile.SeenReturned:
			q.watch(m, b)
			m.law.ForeignBurst = false
		case reconcile.SeenExpected, reconcile.SeenOriginal, reconcile.SeenForeign:
		}
		q.resume(m, b, now)
	}
}
