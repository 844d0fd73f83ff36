package quota

import (
	"errors"
	"maps"

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

// Forget drops the ledgers of removed groups. If the caller knows which pods exist, it also drops those of containers
// whose pod is gone.
func (q *Groups) Forget(podsKnown bool) {
	if podsKnown {
		there := make(map[string]bool, len(q.order))
		for _, m := range q.order {
			there[carryKey(m.workload)] = true
		}
		maps.DeleteFunc(q.carried, func(key string, _ credit.Ledger) bool { return !there[key] })
	}
	for path, s := range q.saved {
		if m := q.byPath[path]; m != nil && m.ID == s.Group {
			continue
		}
		group, err := q.opts.Host.Group(path)
		if errors.Is(err, cgroup.ErrNoGroup) {
			delete(q.saved, path)
		}
		if err != nil {
			continue
		}
		if id, err := group.ID(cgroup.CPU); err != nil || id != s.Group {
			delete(q.saved, path)
		}
		_ = group.Close() // only used to read
	}
}
