package agent

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/berth-project/berth/internal/metrics"
	"github.com/berth-project/berth/internal/nri"
	"github.com/berth-project/berth/internal/reconcile"
	"github.com/berth-project/berth/internal/view"
)

// counts are what the agent counts of its own work, and what it reported last.
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

// drifted reports that another writer has a value now.
func (n *counts) drifted(e reconcile.Event) {
	n.work.Drifted()
	n.events.Renew(view.Event{At: n.now(), About: cmp.Or(e.Workload, e.Group), Reason: e.Reason, Text: e.Text, Warning: true})
	n.log.Warn(e.Reason, "workload", e.Workload, "group", e.Group, "reason", e.Text)
}

// failEach reports what went wrong in a pass beside the groups.
func (n *counts) failEach(errs []error) {
	for _, err := range errs {
		n.fail("CPU sets", err)
	}
}

// stepped counts a step of the loop that took this long and began with this many failures.
func (n *counts) stepped(name string, took time.Duration, failures uint64) {
	n.work.Step(name, took, n.failures > failures)
}

// measured is what is read of the agent at each scrape.
func (c *controller) measured() *metrics.Agent {
	return &metrics.Agent{
		Lock: &c.mu, Version: c.opts.Version, Work: c.work, Capabilities: c.capabilities,
		Problems: func() int { return len(c.problems) + len(c.standalone.unpooled) + len(c.waiting) },
		History:  func() metrics.History { return metrics.History{Size: c.past.Size(), Lost: c.recorder.Lost()} },
		NRI: func() (nri.Status, bool) {
			if c.connected == nil {
				return nri.Status{}, false
			}
			return c.connected.runtime.NRI()
		},
	}
}
