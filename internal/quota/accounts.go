package quota

import (
	"maps"

	"github.com/berth-project/berth/internal/burst"
)

// accounts are the ledgers, and the processes of workloads, that outlive the groups they
// were found with.
type accounts struct {
	saved   map[string]SavedLedger    // by path
	carried map[string]burst.Ledger   // of containers of pods, by carryKey
	started map[string]map[int]uint64 // of workloads that do not count at the moment
}

func newAccounts() accounts {
	return accounts{saved: map[string]SavedLedger{}, carried: map[string]burst.Ledger{}, started: map[string]map[int]uint64{}}
}

// openLedger continues the account that an earlier agent, or an earlier file,
// kept for this group, or starts one.
func (a *accounts) openLedger(m *Group) {
	if s, ok := a.saved[m.group.Path()]; ok && s.Group == m.id {
		m.law.Continue(s.Ledger)
		return
	}
	if l, ok := a.carried[carryKey(m.workload)]; ok && m.workload.Pod.UID != "" {
		l.Usage = 0 // a container that was started anew: all that its group shows is new
		m.law.Continue(l)
		return
	}
	m.law.Open()
}

// remember keeps the ledger of m, and what was left to another writer, for a later
// attach of the same group: neither a change of the file nor a restart fills
// credit or starts a write conflict anew.
func (a *accounts) remember(m *Group) {
	s := SavedLedger{Group: m.id, Ledger: m.law.Ledger}
	if m.state == StateDrift {
		s.Left = m.max.Stands()
	}
	a.saved[m.group.Path()] = s
	if m.workload.Pod.UID != "" {
		a.carried[carryKey(m.workload)] = m.law.Ledger
	}
}

// forgetPods drops the ledgers of containers whose pod is gone. The caller knows which
// pods there are.
func (a *accounts) forgetPods(groups map[string]*Group) {
	there := make(map[string]bool, len(groups))
	for _, m := range groups {
		there[carryKey(m.workload)] = true
	}
	maps.DeleteFunc(a.carried, func(key string, _ burst.Ledger) bool { return !there[key] })
}

// keepStarted remembers the processes of a workload whose file does not count at
// the moment, and forgets those of one that is gone.
func (a *accounts) keepStarted(name string, m *Group, waits bool) {
	delete(a.started, name)
	if waits && len(m.started) > 0 {
		a.started[name] = m.started
	}
}
