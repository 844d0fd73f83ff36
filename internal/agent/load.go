package agent

import (
	"errors"
	"maps"
	"slices"

	"github.com/berth-project/berth/internal/burst"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/manifest"
	"github.com/berth-project/berth/internal/reconcile"
	"github.com/berth-project/berth/internal/workload"
)

// load reads the agent's file and the workloads. While either cannot be read
// what was known before stays in force: a slip of an editor unsettles nothing.
func (c *controller) load() {
	c.manifestProblem = c.loadConfig()
	if c.manifestProblem == nil {
		c.manifestProblem = c.loadWorkloads()
	}
	if c.manifestProblem != nil {
		c.fail("files not read, the last good ones stay in force", c.manifestProblem)
	}
}

func (c *controller) loadConfig() error {
	if c.opts.ConfigFile == "" {
		return nil
	}
	cfg, err := manifest.LoadConfig(c.opts.ConfigFile)
	if err != nil {
		return err
	}
	old := c.opts.Config
	if cfg.StateDir != old.StateDir || cfg.Listen != old.Listen {
		c.opts.Log.Warn("stateDir and listen take effect when the agent starts", "file", c.opts.ConfigFile)
		cfg.StateDir, cfg.Listen = old.StateDir, old.Listen
	}
	if cfg.WorkloadDir != old.WorkloadDir {
		c.watcher = manifest.NewWatcher(c.opts.ConfigFile, cfg.WorkloadDir)
	}
	for _, w := range manifest.ConfigWarnings(c.opts.ConfigFile, cfg) {
		c.opts.Log.Warn("configuration", "warning", w.Error())
	}
	c.opts.Config = cfg
	c.node.configure(cfg)
	c.house.Configure(workload.AdministratorOf(c.opts.ConfigFile, cfg))
	c.stale = true // policies and the guard's threshold follow from both
	return nil
}

func (c *controller) loadWorkloads() error {
	if c.opts.Config.WorkloadDir == "" {
		c.adopt(c.guests)
		return nil
	}
	admin := workload.AdministratorOf(c.opts.ConfigFile, c.opts.Config)
	loaded, err := manifest.LoadWorkloads(c.opts.Config.WorkloadDir, admin)
	if err != nil {
		return err
	}
	c.waiting, c.problems = loaded.Pending, loaded.Problems
	for _, p := range loaded.Problems {
		c.opts.Log.Warn(string(p.Kind), "file", p.File, "workload", p.Workload, "error", p.Err)
	}
	for _, p := range loaded.Pending {
		c.opts.Log.Warn("workload waits", "workload", p.Workload.Name, "file", p.Workload.File, "reason", p.Reason)
	}
	c.adopt(append(loaded.Ready, c.guests...))
	return nil
}

// adopt makes the members those of ready. A workload that stays keeps its
// ledger; one whose group is named anew loses its handle; one that is gone
// leaves its settings to restoreUnwanted.
func (c *controller) adopt(ready []workload.Workload) {
	members := make(map[string]*member, len(ready))
	for _, w := range ready {
		m := c.memberOf(w)
		if !m.workload.Equal(w) {
			m.burstLeft, m.burstConflict = false, reconcile.Conflict{}
		}
		m.workload, m.policy, m.rereadDue = w, policyOf(w.Burst), 0
		m.warnings = c.warningsOf(w.Name)
		c.repolicy(m)
		members[w.Name] = m
	}
	for name, m := range c.members {
		if members[name] == nil {
			c.drop(m)
			c.keepStarted(name, m)
		}
	}
	c.members, c.moved = members, true
	c.order = c.order[:0]
	for _, name := range slices.Sorted(maps.Keys(members)) {
		c.order = append(c.order, members[name])
	}
}

// memberOf returns the member for w: a new one, or the one there is, without its
// group if that may be another one now. A changed file also ends a drift.
func (c *controller) memberOf(w workload.Workload) *member {
	m := c.members[w.Name]
	switch {
	case m == nil:
		return &member{since: c.opts.Now(), state: StatePending, started: maps.Clone(c.started[w.Name])}
	case !sameGroup(m.workload, w):
		c.drop(m)
		if !slices.Equal(m.workload.PIDs, w.PIDs) {
			m.started = nil
		}
	case m.state == StateDrift && !m.workload.Equal(w):
		path := m.group.Path()
		c.drop(m)
		s := c.saved[path]
		s.Left = ""
		c.saved[path] = s
	}
	return m
}

// repolicy lets a changed policy take effect on a group that is held already.
// The ledger outlives the policy: switching it off and on fills no credit.
func (c *controller) repolicy(m *member) {
	if m.group == nil || m.state == StateDrift {
		return
	}
	before := m.state
	c.settleState(m)
	c.activate(m, before, c.opts.Clock())
}

// keepStarted remembers the processes of a workload whose file does not count at
// the moment, and forgets those of one that is gone.
func (c *controller) keepStarted(name string, m *member) {
	delete(c.started, name)
	waits := func(p manifest.Pending) bool { return p.Workload.Name == name }
	wrong := func(p manifest.Problem) bool { return p.Workload == name }
	if len(m.started) > 0 && (slices.ContainsFunc(c.waiting, waits) || slices.ContainsFunc(c.problems, wrong)) {
		c.started[name] = m.started
	}
}

// sameGroup says whether both values name their processes alike.
func sameGroup(a, b workload.Workload) bool {
	return a.Cgroup == b.Cgroup && a.Unit == b.Unit && slices.Equal(a.PIDs, b.PIDs)
}

// warningsOf are the problems of a workload that counts all the same.
func (c *controller) warningsOf(name string) []string {
	var warnings []string
	for _, p := range c.problems {
		if p.Workload == name && p.Kind != manifest.Invalid {
			warnings = append(warnings, p.Err.Error())
		}
	}
	return warnings
}

// drop closes the group of m and remembers its ledger, in case it comes back.
func (c *controller) drop(m *member) {
	if m.group == nil {
		return
	}
	path := m.group.Path()
	if m.state == StateActive || m.state == StateDrift {
		c.remember(m)
	}
	if c.byPath[path] == m {
		delete(c.byPath, path)
	}
	if err := m.release(); err != nil {
		c.fail("release", err)
	}
	m.forget()
	c.enter(m, StatePending, "not looked at yet")
	c.moved = true
}

// remember keeps the ledger of m, and what was left to somebody else, for a later
// attach of the same group: neither a change of the file nor a restart fills
// credit or starts a duel anew.
func (c *controller) remember(m *member) {
	s := SavedLedger{Group: m.id, Ledger: m.ledger}
	if m.state == StateDrift {
		s.Left = m.standing
	}
	c.saved[m.group.Path()] = s
	if m.workload.Pod.UID != "" {
		c.carried[carryKey(m.workload)] = m.ledger
	}
}

// carryKey names a container of a pod through its restarts.
func carryKey(w workload.Workload) string { return w.Pod.UID + "/" + w.Name }

// forgetGone drops the ledgers of groups that are not there any more.
func (c *controller) forgetGone() {
	for path, s := range c.saved {
		if m := c.byPath[path]; m != nil && m.id == s.Group {
			continue
		}
		group, err := c.host.Group(path)
		if errors.Is(err, cgroup.ErrNoGroup) {
			delete(c.saved, path)
		}
		if err != nil {
			continue
		}
		if id, err := group.ID(cgroup.CPU); err != nil || id != s.Group {
			delete(c.saved, path)
		}
		_ = group.Close() // read only: nothing can be lost
	}
	c.forgetPods()
}

// forgetPods drops the ledgers of containers whose pod is gone, once it is known
// which pods there are.
func (c *controller) forgetPods() {
	if !c.settled {
		return
	}
	there := make(map[string]bool, len(c.members))
	for _, m := range c.members {
		there[carryKey(m.workload)] = true
	}
	maps.DeleteFunc(c.carried, func(key string, _ burst.Ledger) bool { return !there[key] })
}
