package agent

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/berth-project/berth/internal/agent/metrics"
	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/capability/localize/mover"
	"github.com/berth-project/berth/internal/engine/reconcile"
	"github.com/berth-project/berth/internal/node/nri"
)

// counts are the agent's counters of its own work, and its last reports.
type counts struct {
	log    *slog.Logger
	now    func() time.Time
	work   *metrics.Work
	events view.Log
	// failures is how often the agent's own work has failed.
	failures uint64
}

// fail reports a failure of the agent's own work.
func (n *counts) fail(what string, err error) {
	n.failures++
	n.work.Failed()
	n.log.Warn("agent: "+what, "error", err)
}

// drifted reports that another writer has changed a value.
func (n *counts) drifted(e reconcile.Event) {
	n.work.Drifted()
	n.events.Renew(view.Event{At: n.now(), About: cmp.Or(e.Workload, e.Group), Reason: e.Reason, Text: e.Text, Warning: true})
	n.log.Warn(e.Reason, "workload", e.Workload, "group", e.Group, "reason", e.Text)
}

// failEach reports the errors of a pass that belong to no group.
func (n *counts) failEach(errs []error) {
	for _, err := range errs {
		n.fail("CPU sets", err)
	}
}

// stepped counts a step of the loop with its duration and the number of failures at its start.
func (n *counts) stepped(name string, took time.Duration, failures uint64) {
	n.work.Step(name, took, n.failures > failures)
}

// memoryNow returns the present memory of the NUMA nodes.
func (c *controller) memoryNow() (map[int]locality.NodeMemory, error) {
	return mover.Present(c.opts.Root)
}

// measured returns the data that each scrape reads.
func (c *controller) measured() *metrics.Agent {
	return &metrics.Agent{
		Lock: &c.mu, Version: c.opts.Version, Work: c.counts.work, Capabilities: c.capabilities,
		Host: func() metrics.Host { return metrics.ReadHost(c.opts.Root, c.memoryNow, c.opts.Log) },
		Problems: func() int {
			return len(c.documents.problems) + len(c.documents.standalone.unpooled) + len(c.documents.waiting)
		},
		History: func() metrics.History {
			return metrics.History{Size: c.windows.past.Size(), Lost: c.windows.recorder.Lost()}
		},
		NRI: func() (nri.Status, bool) {
			if c.cluster.connected == nil {
				return nri.Status{}, false
			}
			return c.cluster.connected.runtime.NRI()
		},
	}
}
