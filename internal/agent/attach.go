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
func (c *controller) attachAll(now time.Duration) {
	claims := map[string]int{}
	paths := make([]string, len(c.order))
	for i, m := range c.order {
		path, err := c.locate(m, now)
		if err != nil {
			c.suspend(m, err.Error())
			continue
		}
		paths[i] = path
		claims[path]++
		if m.group != nil && m.group.Path() != path {
			c.drop(m) // before anybody attaches: two may have changed places
		}
	}
	for i, m := range c.order {
		switch path := paths[i]; {
		case path == "":
		case claims[path] > 1:
			c.suspend(m, fmt.Sprintf("group %s: %v", path, errShared))
		case m.group == nil:
			c.attach(m, path, now)
		}
	}
}

// locate returns the path of m's group. What costs more than a comparison is
// asked again only while it is unknown or may have changed.
func (c *controller) locate(m *member, now time.Duration) (string, error) {
	w := m.workload
	if w.Cgroup != "" {
		return w.Cgroup, nil
	}
	if w.Pod.UID != "" {
		return "", errEnded
	}
	if m.group != nil && now < m.locatedAt+soleEvery {
		return m.group.Path(), nil
	}
	m.locatedAt = now
	if err := c.sameProcesses(m); err != nil {
		return "", err
	}
	path, err := find(c.host, w)
	if err == nil && (path == "" || path == "/" || path == ".") {
		err = errRoot
	}
	return path, err
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

// sameProcesses refuses a pid that the kernel gave to another process since the
// workload was first found: that one did not ask.
func (c *controller) sameProcesses(m *member) error {
	for _, pid := range m.workload.PIDs {
		start, err := c.host.ProcessStart(pid)
		if err != nil {
			return fmt.Errorf("pids %v: %w", m.workload.PIDs, err)
		}
		if first, known := m.started[pid]; known && first != start {
			return fmt.Errorf("pids %v: %w: %d", m.workload.PIDs, errOther, pid)
		}
		if m.started == nil {
			m.started = map[int]uint64{}
		}
		m.started[pid] = start
	}
	return nil
}

// suspend takes the group from m and says why; restoreUnwanted does the rest.
func (c *controller) suspend(m *member, reason string) {
	c.drop(m)
	if c.enter(m, StatePending, reason) && reason != errEnded.Error() {
		c.opts.Log.Info("workload waits", "workload", m.workload.Name, "reason", reason)
	}
}

// attach opens the group of m and starts its ledger.
func (c *controller) attach(m *member, path string, now time.Duration) {
	group, err := c.host.Group(path)
	if err != nil {
		c.suspend(m, err.Error())
		return
	}
	m.group = group
	if err := c.open(m, now); err != nil {
		m.group = nil
		c.suspend(m, errors.Join(err, group.Close()).Error())
		return
	}
	c.byPath[path] = m
	c.forgetLeft(path)
	c.moved = true
}

// open reads everything about a group that was just opened and puts m into
// its first state.
func (c *controller) open(m *member, now time.Duration) error {
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
	at := c.opts.Clock()
	m.id, m.identity, m.offlineUse = id, cgroupfile.Identity(id), usage
	m.forget()
	m.limit, m.standing, m.burstStanding = c.ownLimit(m, bandwidth)
	m.facts = burst.Facts{At: at, Usage: usage, Slice: c.opts.facts.slice, Tick: c.opts.facts.tick}
	m.due, m.rereadDue = now, now
	c.take(m, bandwidth)
	m.ledger = c.openLedger(m)
	if s, ok := c.saved[m.group.Path()]; ok && s.Group == id && s.Left != "" && s.Left == bandwidth.Max() {
		const reason = "left to whoever wrote it, before the agent was started anew"
		m.maxConflict.Leave(now, plan.Value(bandwidth.Max()), reason)
		c.enter(m, StateDrift, reason)
		return nil
	}
	c.settleState(m)
	return nil
}

// ownLimit returns the group's own cpu.max and the values that Berth would
// expect to find: those of the journal, when it knows this very group.
func (c *controller) ownLimit(m *member, b cgroup.Bandwidth) (limit, standing, burstStanding cgroup.Value) {
	limit, standing, burstStanding = b.Max(), b.Max(), b.BurstValue()
	if e, ok := c.entry(m, cgroup.KnobMax); ok {
		limit, standing = cgroup.Value(e.Original), expected(e, b.Max())
	}
	if e, ok := c.entry(m, cgroup.KnobBurst); ok {
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
// was lifted for CPUs of its own is not the group's own limit, nor burst's to judge.
func (c *controller) entry(m *member, k cgroup.Knob) (journal.Entry, bool) {
	e, ok := c.journal.Entry(cgroupfile.Target(m.group.Path(), k))
	return e, ok && e.ID == m.identity && e.Owner == plan.OwnerBurst
}

// openLedger continues the account that an earlier agent, or an earlier file,
// kept for this group, or starts one.
func (c *controller) openLedger(m *member) burst.Ledger {
	if s, ok := c.saved[m.group.Path()]; ok && s.Group == m.id {
		return s.Ledger.Advance(m.facts, m.policy)
	}
	if l, ok := c.carried[carryKey(m.workload)]; ok && m.workload.Pod.UID != "" {
		l.Usage = 0 // a container that was started anew: all that its group shows is new
		return l.Advance(m.facts, m.policy)
	}
	raised := m.facts.Standing > m.facts.LimitQuota || m.facts.Standing == unit.NoLimit
	return burst.Open(m.policy, m.facts, raised)
}

// settleState decides between the states that need no look.
func (c *controller) settleState(m *member) {
	switch quota, _, err := m.limit.Pair(); {
	case err != nil:
		c.enter(m, StatePending, err.Error())
	case !m.workload.Burst.Wanted():
		c.enter(m, StateOff, offReason(m.workload.Burst))
	case m.group != nil && c.pins.lifted[m.group.Path()]:
		c.enter(m, StateOff, "it runs without a quota, on CPUs of its own")
	case quota < 0:
		c.enter(m, StateNoLimit, "the group has no quota: there is nothing to burst over")
	default:
		c.enter(m, StateActive, "")
	}
}

func offReason(b workload.Burst) string {
	if b.Off != nil {
		return b.Off.Error()
	}
	return "policy none"
}

// recheckIdle looks once a second at members that are not looked at otherwise:
// a limit may appear, a policy may change, an offline group's use counts.
func (c *controller) recheckIdle(now time.Duration) {
	for _, m := range c.order {
		if m.group == nil || m.state == StateActive {
			continue
		}
		b, err := m.group.Bandwidth()
		if err != nil {
			c.suspend(m, err.Error())
			continue
		}
		if m.state == StateDrift {
			c.recheckDrift(m, b, now)
			continue
		}
		if _, journaled := c.entry(m, cgroup.KnobMax); !journaled {
			m.limit, m.standing = b.Max(), b.Max()
		}
		c.resume(m, b, now)
	}
}

// offlineUse is the CPU time that groups outside of the shared pool used since it
// was last asked: offline ones, and those with CPUs of their own.
func (c *controller) offlineUse() unit.CPUTime {
	var sum unit.CPUTime
	for _, m := range c.order {
		if m.group == nil || !m.workload.Offline && !m.workload.Exclusive && !c.pins.lifted[m.group.Path()] {
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
