package quota

import (
	"errors"
	"maps"
	"slices"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/workload"
)

// Ready is a workload that counts, with what is wrong about it all the same.
type Ready struct {
	Workload workload.Workload
	Warnings []string
}

// Waiting is a workload that does not count at the moment, and why: what it names is not
// there yet, or its file is damaged. Of a damaged one only the name is known.
type Waiting struct {
	Workload workload.Workload
	Reason   string
	// Damaged says that the file is at fault: it is listed among the problems.
	Damaged bool
}

// Adopt makes the workload groups those of ready. A workload that stays keeps its
// ledger; one whose group is named anew loses its handle; one that is gone
// leaves its settings to the reconciler, which puts them back.
func (q *Groups) Adopt(ready []Ready, waiting []Waiting) {
	byName := make(map[string]*Group, len(ready))
	q.waiting = waiting
	for _, r := range ready {
		w, m := r.Workload, q.groupOf(r.Workload)
		if !m.workload.Equal(w) {
			m.retakeBurst()
		}
		m.workload, m.rereadDue = w, 0
		m.law.Name, m.law.Policy, m.law.Spec = w.Name, policyOf(w.Burst), w.Limit
		m.warnings = r.Warnings
		q.repolicy(m)
		byName[w.Name] = m
	}
	for name, m := range q.byName {
		if byName[name] == nil {
			q.drop(m)
			q.keepStarted(name, m, slices.ContainsFunc(waiting, func(w Waiting) bool { return w.Workload.Name == name }))
		}
	}
	q.byName, q.moved = byName, true
	q.order = q.order[:0]
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		q.order = append(q.order, byName[name])
	}
}

// groupOf returns the workload group for w: a new one, or the one there is, without its
// group if that may be another one now. A changed file also ends a drift.
func (q *Groups) groupOf(w workload.Workload) *Group {
	m := q.byName[w.Name]
	switch {
	case m == nil:
		return &Group{phase: phase{since: q.opts.Now(), state: StatePending}, started: maps.Clone(q.started[w.Name])}
	case !sameGroup(m.workload, w):
		q.drop(m)
		if !slices.Equal(m.workload.PIDs, w.PIDs) {
			m.started = nil
		}
	case m.state == StateDrift && !m.workload.Equal(w):
		path := m.group.Path()
		q.drop(m)
		s := q.saved[path]
		s.Left = ""
		q.saved[path] = s
	}
	return m
}

// repolicy lets a changed policy take effect on a group that is held already.
// The ledger outlives the policy: switching it off and on fills no credit.
func (q *Groups) repolicy(m *Group) {
	if m.group == nil || m.state == StateDrift {
		return
	}
	before := m.state
	q.settleState(m)
	q.activate(m, before, q.opts.Clock())
}

// sameGroup says whether both values name their processes alike.
func sameGroup(a, b workload.Workload) bool {
	return a.Cgroup == b.Cgroup && a.Unit == b.Unit && slices.Equal(a.PIDs, b.PIDs)
}

// drop closes the group of m and remembers its ledger, in case it comes back.
func (q *Groups) drop(m *Group) {
	if m.group == nil {
		return
	}
	path := m.group.Path()
	if m.state == StateActive || m.state == StateDrift {
		q.remember(m)
	}
	if q.byPath[path] == m {
		delete(q.byPath, path)
	}
	if err := m.release(); err != nil {
		q.opts.Fail("release", err)
	}
	m.forget()
	q.enter(m, StatePending, "not looked at yet")
	q.moved = true
}

// carryKey names a container of a pod through its restarts.
func carryKey(w workload.Workload) string { return w.Pod.UID + "/" + w.Name }

// Forget drops the ledgers of groups that are not there any more, and of containers whose
// pod is gone where the caller knows which pods there are.
func (q *Groups) Forget(podsKnown bool) {
	if podsKnown {
		q.forgetPods(q.byName)
	}
	for path, s := range q.saved {
		if m := q.byPath[path]; m != nil && m.id == s.Group {
			continue
		}
		group, err := q.host.Group(path)
		if errors.Is(err, cgroup.ErrNoGroup) {
			delete(q.saved, path)
		}
		if err != nil {
			continue
		}
		if id, err := group.ID(cgroup.CPU); err != nil || id != s.Group {
			delete(q.saved, path)
		}
		_ = group.Close() // read only: nothing can be lost
	}
}
