package agent

import (
	"github.com/berth-project/berth/internal/manifest"
	"github.com/berth-project/berth/internal/roster"
	"github.com/berth-project/berth/internal/workload"
)

// documents are what users wrote, as it was read last.
type documents struct {
	watcher  *manifest.Watcher
	waiting  []manifest.Pending
	problems []manifest.Problem
	// manifestProblem is why the files could not be read.
	manifestProblem error
	roster          *roster.Roster // the workloads of these, and of the cluster, with their groups
	standalone      uint64         // how much of the roster's changes the inventory took over
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
	c.burst.Pool().Configure(cfg)
	c.inventory.Configure(workload.AdministratorOf(c.opts.ConfigFile, cfg))
	c.stale = true // policies and the guard's threshold follow from both
	return nil
}

func (c *controller) loadWorkloads() error {
	if c.opts.Config.WorkloadDir == "" {
		c.adopt(c.containers)
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
	c.adopt(append(loaded.Ready, c.containers...))
	return nil
}

// adopt makes the workloads those of ready.
func (c *controller) adopt(all []workload.Workload) {
	ready := make([]roster.Ready, 0, len(all))
	for _, w := range all {
		ready = append(ready, roster.Ready{Workload: w, Warnings: c.warningsOf(w.Name)})
	}
	var waiting []roster.Waiting
	for _, p := range c.waiting {
		waiting = append(waiting, roster.Waiting{Workload: p.Workload, Reason: p.Reason.Error()})
	}
	for _, p := range c.problems {
		waiting = append(waiting, roster.Waiting{Workload: workload.Workload{Name: p.Workload}, Damaged: true})
	}
	c.roster.Adopt(ready, waiting)
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
