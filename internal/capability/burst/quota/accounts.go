package quota

import (
	"errors"
	"maps"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/burst"
	"github.com/berth-project/berth/internal/capability/burst/credit"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/cgroup"
)

// accounts are the ledgers that outlive their groups.
type accounts struct {
	saved   map[string]SavedLedger   // by path
	carried map[string]credit.Ledger // of containers of pods, by carryKey
}

// openLedger continues the account that an earlier agent, or an earlier file, had for this group, or starts one.
func (a *accounts) openLedger(m *Group) {
	if s, ok := a.saved[m.Group.Path()]; ok && s.Group == m.ID {
		m.law.Continue(s.Ledger)
		return
	}
	if l, ok := a.carried[carryKey(m.workload)]; ok && m.workload.Pod.UID != "" {
		l.Usage = 0 // a restarted container: all use of its group is new
		m.law.Continue(l)
		return
	}
	m.law.Open()
}

// remember stores the ledger of m, and a value left to another writer, for a later attach of the same group: neither a
// change of the file nor a restart adds credit or starts a write conflict again.
func (a *accounts) remember(m *Group) {
	s := SavedLedger{Group: m.ID, Ledger: m.law.Ledger}
	if m.state == burst.StateDrift {
		s.Left = m.Max.Stands()
	}
	a.saved[m.Group.Path()] = s
	if m.workload.Pod.UID != "" {
		a.carried[carryKey(m.workload)] = m.law.Ledger
	}
}

// carryKey identifies a container of a pod across its restarts.
func carryKey(w *workload.Workload) string { return w.Pod.UID + "/" + w.Name }

// state is what outlives the agent: the ledgers by group path, and those of containers by pod UID and container, since
// a restarted container has a new group and retains its account.
func (a *accounts) state(groups []*Group) capability.Sections {
	now := accounts{maps.Clone(a.saved), maps.Clone(a.carried)}
	for _, m := range groups {
		if m.state == burst.StateActive {
			now.remember(m)
		}
	}
	out := capability.Sections{keyLedgers: now.saved}
	if len(now.carried) > 0 {
		out[keyCarried] = now.carried
	}
	return out
}

// Forget drops the ledgers of removed groups. If the caller knows which pods exist, it also drops those of containers
// whose pod is gone.
func (q *Groups) Forget(podsKnown bool) {
	if podsKnown {
		there := make(map[string]bool, len(q.set.order))
		for _, m := range q.set.order {
			there[carryKey(m.workload)] = true
		}
		maps.DeleteFunc(q.ledgers.carried, func(key string, _ credit.Ledger) bool { return !there[key] })
	}
	for path, s := range q.ledgers.saved {
		if m := q.set.byPath[path]; m != nil && m.ID == s.Group {
			continue
		}
		group, err := q.opts.Host.Group(path)
		if errors.Is(err, cgroup.ErrNoGroup) {
			delete(q.ledgers.saved, path)
		}
		if err != nil {
			continue
		}
		if id, err := group.ID(cgroup.CPU); err != nil || id != s.Group {
			delete(q.ledgers.saved, path)
		}
		_ = group.Close() // only used to read
	}
}
