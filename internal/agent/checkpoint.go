package agent

import (
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/agent/checkpoint"
	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/capability"
)

// checkpointEvery bounds the age of the checkpoint on disk.
const checkpointEvery = 10 * time.Second

// checkpoint assembles the state to be remembered.
func (c *controller) checkpoint() checkpoint.Checkpoint {
	cp := checkpoint.Checkpoint{Version: c.opts.Version, PID: os.Getpid(), BootID: c.opts.BootID, Written: c.opts.Now(), Clock: c.opts.Clock()}
	r, err := view.Join(c.gather(cp.Written))
	cp.Workloads, cp.Problems, cp.Sections = r.Workloads, r.Problems, r.Node
	each(c, func(a capability.Rememberer) { err = errors.Join(err, cp.Sections.Add(a.State())) })
	if started := c.documents.roster.Started(); len(started) > 0 {
		err = errors.Join(err, cp.Sections.Add(capability.Sections{keyStarted: started}))
	}
	if err != nil {
		c.counts.fail("checkpoint", err)
	}
	slices.SortStableFunc(cp.Workloads, func(a, b view.Status) int { return strings.Compare(a.Name, b.Name) })
	return cp
}

// gather returns the problems that users have to fix, and the reports of the capabilities.
func (c *controller) gather(now time.Time) (problems []string, all []view.Said) {
	for _, p := range c.documents.problems {
		problems = append(problems, p.Err.Error())
	}
	for _, p := range c.documents.standalone.unpooled {
		problems = append(problems, p.Error())
	}
	if c.windows.unheard != nil {
		problems = append(problems, c.windows.unheard.Error())
	}
	for _, one := range c.reporting {
		all = append(all, view.Said{Name: one.Describe().Name, Outcome: one.Outcome(now)})
	}
	return problems, append(all, view.Said{Outcome: c.documents.ofRoster(now)})
}

// keyStarted is the key of the start times of processes in a checkpoint.
const keyStarted = "started"

// ofRoster returns the waiting workloads. A damaged workload is among the problems.
func (d *documents) ofRoster(now time.Time) capability.Outcome {
	var out capability.Outcome
	for _, w := range d.roster.Waiting() {
		if !w.Damaged {
			out.Rows = append(out.Rows, capability.Row{Workload: capability.Workload{
				Name: w.Workload.Name, File: w.Workload.File, Group: w.Workload.Cgroup, State: capability.StatePending,
				Reason: w.Reason, Since: now, Policy: w.Workload.Burst.Policy,
			}})
		}
	}
	return out
}
