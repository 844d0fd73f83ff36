package agent

import (
	"errors"
	"maps"
	"slices"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/manifest"
	"github.com/berth-project/berth/internal/workload"
)

// documents are what users wrote, as it was read last.
type documents struct {
	watcher  *manifest.Watcher
	waiting  []manifest.Pending
	problems []manifest.Problem
	// manifestProblem is why the files could not be read.
	manifestProblem error
}

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
	c.inventory.Configure(workload.AdministratorOf(c.opts.ConfigFile, cfg))
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

// adopt makes the workload groups those of ready. A workload that stays keeps its
// ledger; one whose group is named anew loses its handle; one that is gone
// leaves its settings to the reconciler, which puts them back.
func (c *controller) adopt(ready []workload.Workload) {
	byName := make(map[string]*workloadGroup, len(ready))
	for _, w := range ready {
		m := c.groupOf(w)
		if !m.workload.Equal(w) {
			m.retakeBurst()
		}
		m.workload, m.rereadDue = w, 0
		m.law.Name, m.law.Policy, m.law.Spec = w.Name, policyOf(w.Burst), w.Limit
		m.warnings = c.warningsOf(w.Name)
		c.repolicy(m)
		byName[w.Name] = m
	}
	for name, m := range c.byName {
		if byName[name] == nil {
			c.drop(m)
			c.keepStarted(name, m)
		}
	}
	c.byName, c.moved = byName, true
	c.order = c.order[:0]
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		c.order = append(c.order, byName[name])
	}
}

// groupOf returns the workload group for w: a new one, or the one there is, without its
// group if that may be another one now. A changed file also ends a drift.
func (q *quotas) groupOf(w workload.Workload) *workloadGroup {
	m := q.byName[w.Name]
	switch {
	case m == nil:
		return &workloadGroup{phase: phase{since: q.opts.Now(), state: StatePending}, started: maps.Clone(q.started[w.Name])}
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
func (q *quotas) repolicy(m *workloadGroup) {
	if m.group == nil || m.state == StateDrift {
		return
	}
	before := m.state
	q.settleState(m)
	q.activate(m, before, q.opts.Clock())
}

// keepStarted remembers the processes of a workload whose file does not count at
// the moment, and forgets those of one that is gone.
func (c *controller) keepStarted(name string, m *workloadGroup) {
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

// drop closes the group of m and remembers its ledger, in case it comes back.
func (q *quotas) drop(m *workloadGroup) {
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
		q.fail("release", err)
	}
	m.forget()
	q.enter(m, StatePending, "not looked at yet")
	q.moved = true
}

// carryKey names a container of a pod through its restarts.
func carryKey(w workload.Workload) string { return w.Pod.UID + "/" + w.Name }

// forgetGone drops the ledgers of groups that are not there any more.
func (q *quotas) forgetGone() {
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

// warningsOf are the problems of a workload that counts all the same.
func (d *documents) warningsOf(name string) []string {
	var warnings []string
	for _, p := range d.problems {
		if p.Workload == name && p.Kind != manifest.Invalid {
			warnings = append(warnings, p.Err.Error())
		}
	}
	return warnings
}
