package agent

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/intent/manifest"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/node/roster"
)

// documents are the files of users, as they were last read.
type documents struct {
	watcher *manifest.Watcher
	// counted are the valid workloads of the files; waiting and problems are the other ones.
	counted  []workload.Workload
	held     []workload.Workload // workloads of an earlier agent, until the files were read
	waiting  []manifest.Pending
	problems []manifest.Problem
	// manifestProblem is why the files could not be read.
	manifestProblem error
	roster          *roster.Roster // the workloads of these files and of the cluster, with their groups
	standalone      standalone
}

// standalone is the state of a host without Kubernetes, which follows its files.
type standalone struct {
	taken uint64 // the last roster change that the inventory has
	// unpooled are groups of sharedPool that this host does not have.
	unpooled v1alpha1.FieldErrors
}

// load reads the agent's file and the workloads. If either cannot be read, the last good state stays in force: a typing
// error disturbs nothing.
func (c *controller) load() {
	c.documents.manifestProblem = c.loadConfig()
	if c.documents.manifestProblem == nil {
		c.documents.manifestProblem = c.loadWorkloads()
	}
	if c.documents.manifestProblem != nil {
		c.counts.fail("files not read, the last good ones stay in force", c.documents.manifestProblem)
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
	if cfg.StateDir != old.StateDir || cfg.Listen != old.Listen || !slices.Equal(cfg.Web.Hosts, old.Web.Hosts) || cfg.Web.TLS != old.Web.TLS {
		c.opts.Log.Warn("stateDir, listen and web take effect when the agent starts", "file", c.opts.ConfigFile)
		cfg.StateDir, cfg.Listen, cfg.Web = old.StateDir, old.Listen, old.Web
	}
	if !cfg.History.Same(old.History) {
		c.opts.Log.Warn("history takes effect when the agent starts", "file", c.opts.ConfigFile)
		cfg.History = old.History
	}
	if cfg.WorkloadDir != old.WorkloadDir {
		c.documents.watcher = manifest.NewWatcher(c.opts.ConfigFile, cfg.WorkloadDir)
	}
	for _, w := range manifest.ConfigWarnings(c.opts.ConfigFile, cfg) {
		c.opts.Log.Warn("configuration", "warning", w.Error())
	}
	c.opts.Config = cfg
	c.inventory.Configure(workload.AdministratorOf(c.opts.ConfigFile, cfg))
	c.cluster.stale = true // policies and the guard's threshold depend on both
	return nil
}

func (c *controller) loadWorkloads() error {
	if c.opts.Config.WorkloadDir == "" {
		c.adopt(c.cluster.containers)
		return nil
	}
	if c.inventory.Obstacle().Restores() {
		c.adopt(nil) // whether or not the files can be read
	}
	admin := workload.AdministratorOf(c.opts.ConfigFile, c.opts.Config)
	loaded, err := manifest.LoadWorkloads(c.opts.Config.WorkloadDir, manifest.Before{Counted: c.documents.counted, Held: c.documents.held}, admin)
	if err != nil {
		return err
	}
	c.documents.counted, c.documents.waiting, c.documents.problems, c.documents.held = loaded.Ready, loaded.Pending, loaded.Problems, nil
	for _, p := range loaded.Problems {
		c.counts.events.Add(view.Event{At: c.counts.now(), About: p.Workload, Reason: v1alpha1.EventInvalidPolicy, Text: p.Err.Error(), Warning: true})
		c.opts.Log.Warn(string(p.Kind), "file", p.File, "workload", p.Workload, "error", p.Err)
	}
	for _, p := range loaded.Pending {
		c.opts.Log.Warn("workload waits", "workload", p.Workload.Name, "file", p.Workload.File, "reason", p.Reason)
	}
	c.adopt(slices.Concat(loaded.Ready, c.cluster.containers))
	return nil
}

// heldBy returns the workloads whose groups an earlier agent had, with their claims, and these groups by name.
func heldBy(all []view.Status, started map[string]map[int]uint64) (held []workload.Workload, groups map[string]string) {
	groups = map[string]string{}
	for _, s := range all {
		if s.Group == "" || s.State == capability.StatePending {
			continue
		}
		groups[s.Name] = s.Group
		w := workload.Workload{Name: s.Name, File: s.File, Cgroup: s.Group, PIDs: slices.Collect(maps.Keys(started[s.Name]))}
		if path.Ext(s.Group) != "" { // a unit's group has one
			w.Unit = path.Base(s.Group)
		}
		held = append(held, w)
	}
	return held, groups
}

// adopt replaces the workloads with all, or with none while everything is being restored.
func (c *controller) adopt(all []workload.Workload) {
	if c.inventory.Obstacle().Restores() {
		all = nil
	}
	ready := make([]roster.Ready, 0, len(all))
	for _, w := range all {
		ready = append(ready, roster.Ready{Workload: w, Warnings: c.documents.warningsOf(w.Name)})
	}
	var waiting []roster.Waiting
	for _, p := range c.documents.waiting {
		waiting = append(waiting, roster.Waiting{Workload: p.Workload, Reason: p.Reason.Error()})
	}
	for _, p := range c.documents.problems {
		waiting = append(waiting, roster.Waiting{Workload: workload.Workload{Name: p.Workload}, Damaged: true})
	}
	c.documents.roster.Adopt(ready, waiting)
}

// take passes the workloads and the shrinking groups to the inventory.
func (s *standalone) take(c *controller, now time.Duration) {
	changes := c.documents.roster.Changes()
	if s.taken == changes {
		c.inventory.FollowLimits()
	} else {
		c.inventory.SetStandalone(c.documents.roster.Standalone(), c.opts.Config.SharedPool)
	}
	if s.taken != changes || now >= c.turns.nextCheckpoint {
		s.findPool(c)
	}
	s.taken = changes
}

// findPool checks the groups of sharedPool. A missing group may appear later, as that of a user who logs in, or be a
// typing error.
func (s *standalone) findPool(c *controller) {
	s.unpooled = nil
	missing := map[string]bool{}
	for i, name := range c.opts.Config.SharedPool {
		group, err := c.host.Group(name, cgroup.CPUSet)
		if err == nil {
			_ = group.Close() // only its existence matters
		}
		if !errors.Is(err, cgroup.ErrNoGroup) {
			continue
		}
		problem := v1alpha1.FieldError{
			File: c.opts.ConfigFile, Field: fmt.Sprintf("sharedPool[%d]", i), Value: v1alpha1.Show(name),
			Allowed: "a group of this host, as its path below the hierarchy's root; no group of that name shrinks until there is one",
		}
		s.unpooled, missing[aboutPool+name] = append(s.unpooled, problem), true
		c.reportOnce(aboutPool+name, "", problem)
	}
	c.reported.forget(aboutPool, missing)
}

// warningsOf returns the problems of a workload that is valid despite them.
func (d *documents) warningsOf(name string) []string {
	var warnings []string
	for _, p := range d.problems {
		if p.Workload == name && p.Kind != manifest.Invalid {
			warnings = append(warnings, p.Err.Error())
		}
	}
	return warnings
}
