package agent

import (
	"errors"
	"fmt"
	"time"

	"github.com/berth-project/berth/internal/burst"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/unit"
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

// attachAll finds the group of every workload that wants one, and takes it away
// from those that may not have it any more.
func (q *quotas) attachAll(now time.Duration) {
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

func find(host *cgroup.Host, w workload.Workload) (string, error) {
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

// suspend takes the group from m and says why; restoreUnwanted does the rest.
func (q *quotas) suspend(m *workloadGroup, reason string) {
	q.drop(m)
	if q.enter(m, StatePending, reason) && !m.workload.Stopped() {
		q.opts.Log.Info("workload waits", "workload", m.workload.Name, "reason", reason)
	}
}

// attach opens the group of m and starts its ledger.
func (q *quotas) attach(m *workloadGroup, path string, now time.Duration) {
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
	q.forgetLeft(path)
	q.moved = true
}

// open reads everything about a group that was just opened and puts m into
// its first state.
func (q *quotas) open(m *workloadGroup, now time.Duration) error {
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
	m.id, m.identity, m.offlineUse = id, cgroupfile.Identity(id), usage
	m.forget()
	m.limit, m.standing, m.burstStanding = q.ownLimit(m, bandwidth)
	m.law.Reset(burst.Facts{At: at, Usage: usage, Slice: q.opts.facts.slice, Tick: q.opts.facts.tick})
	m.due, m.rereadDue = now, now
	q.take(m, bandwidth)
	q.openLedger(m)
	if s, ok := q.saved[m.group.Path()]; ok && s.Group == id && s.Left != "" && s.Left == bandwidth.Max() {
		const reason = "left to whoever wrote it, before the agent was started anew"
		m.maxConflict.Leave(now, plan.Value(bandwidth.Max()), reason)
		q.enter(m, StateDrift, reason)
		return nil
	}
	q.settleState(m)
	return nil
}

// ownLimit returns the group's own cpu.max and the values that Berth would
// expect to find: those of the journal, when it knows this very group.
func (q *quotas) ownLimit(m *workloadGroup, b cgroup.Bandwidth) (limit, standing, burstStanding cgroup.Value) {
	limit, standing, burstStanding = b.Max(), b.Max(), b.BurstValue()
	if e, ok := q.entry(m, cgroup.KnobMax); ok {
		limit, standing = cgroup.Value(e.Original), expected(e, b.Max())
	}
	if e, ok := q.entry(m, cgroup.KnobBurst); ok {
		burstStanding = expected(e, b.BurstValue())
	}
	return limit, standing, burstStanding
}

// expected returns which of the journal's values stands, the last intended one
// if none does: a crash may have come between intent and write.
func expected(e journal.Entry, have cgroup.Value) cgroup.Value {
	for _, v := range []plan.Value{e.Intent, e.Previous, e.Original} {
		if v != "" && cgroup.Same(cgroupfile.Knob(e.Target), cgroup.Value(v), have) {
			return cgroup.Value(v)
		}
	}
	return cgroup.Value(e.Intent)
}

// entry is the journal's entry for a knob of m's group, if it is of this very
// group and not of one that had its name before, and about bursting: a quota that
// was made unlimited for exclusive CPUs is not the group's own limit, nor burst's to judge.
func (w *writer) entry(m *workloadGroup, k cgroup.Knob) (journal.Entry, bool) {
	e, ok := w.journal.Entry(cgroupfile.Target(m.group.Path(), k))
	return e, ok && e.ID == m.identity && e.Owner == plan.OwnerBurst
}

// settleState decides between the states that need no look.
func (q *quotas) settleState(m *workloadGroup) {
	switch quota, _, err := m.limit.Pair(); {
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
func (q *quotas) recheckIdle(now time.Duration) {
	for _, m := range q.order {
		if m.group == nil || m.state == StateActive {
			continue
		}
		b, err := m.group.Bandwidth()
		if err != nil {
			q.suspend(m, err.Error())
			continue
		}
		if m.state == StateDrift {
			q.recheckDrift(m, b, now)
			continue
		}
		if _, journaled := q.entry(m, cgroup.KnobMax); !journaled {
			m.limit, m.standing = b.Max(), b.Max()
		}
		q.resume(m, b, now)
	}
}

// offlineUse is the CPU time that groups outside of the shared pool used since it
// was last asked: offline ones, and those with exclusive CPUs.
func (q *quotas) offlineUse() unit.CPUTime {
	var sum unit.CPUTime
	for _, m := range q.order {
		if m.group == nil || !m.workload.Offline && !m.workload.Exclusive && !q.unlimited[m.group.Path()] {
			continue
		}
		usage, err := m.group.Usage()
		if err != nil {
			continue // the next look says so
		}
		sum += max(usage.Since(m.offlineUse), 0)
		m.offlineUse = usage
	}
	return sum
}
