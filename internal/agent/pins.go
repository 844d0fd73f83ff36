package agent

import (
	"errors"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/place"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/reconcile"
	"github.com/berth-project/berth/internal/statedir"
)

// errStarting is the answer to the runtime about containers that ask for exclusive
// CPUs while it is not known yet whether Berth may give them any.
var errStarting = errors.New("the agent is starting")

// pins is what the controller knows of CPU sets.
type pins struct {
	// asking is how systemd is asked, nil where that does not run.
	asking *reconcile.Asking
	// pods has the UID of the pod of every group of which something is desired.
	pods map[string]string
	// unlimited are the groups that run without a quota, as it was decided last.
	unlimited map[string]bool
	// answers is what the runtime was answered, on disk.
	answers *statedir.Answers
}

// bring brings what is desired to the host.
func (c *controller) bring(now time.Duration, desired []plan.Desired) {
	if !c.reconciler.Wanted(desired) {
		c.reconciler.Want(desired)
	}
	if err := c.self.Shrink(c.machine.online); err != nil {
		c.fail("CPUs of the agent itself", err)
	}
	report, _ := c.reconciler.Pass(now)
	c.takeReport(report)
}

// takeReport takes over what a pass found.
func (c *controller) takeReport(report reconcile.Report) {
	for _, g := range report.Groups {
		if g.State == reconcile.StateApplied && !g.CPUs.IsEmpty() {
			c.inventory.Saw(g.Group, g.CPUs)
		}
	}
	for _, n := range report.Events {
		if n.Reason == v1alpha1.EventHostDrift {
			c.drifts++
		}
		c.tell(c.pins.pods[n.Group], n.Reason, n.Text, true)
	}
	for _, err := range report.Errors {
		c.fail("CPU sets", err)
	}
}

// mayPin says whether enough is known to change CPU sets, or to put them back. An
// agent that was just started knows no container yet, and must not take that for no
// container being there.
func (c *controller) mayPin() bool {
	if c.machine.Topology == nil || c.around == nil {
		return c.machine.Topology != nil
	}
	return c.settled && !c.inventory.Obstacle().Suspends()
}

// desired turns what place decided into what the groups should have, and says which of them
// run without a quota.
func (c *controller) desired() (settings []plan.Desired, noQuota map[string]bool) {
	wants, pods := c.inventory.Desired()
	all := make([]plan.Desired, 0, 3*len(wants)+len(pods))
	noQuota = map[string]bool{}
	c.pins.pods = map[string]string{}
	c.self.CPUs = cpuset.Set{}
	for _, w := range wants {
		if c.self.Is(w.Group) {
			c.self.CPUs = w.CPUs
			continue
		}
		all = append(all, w.Settings()...)
		c.pins.pods[w.Group], noQuota[w.Group] = w.PodUID, w.NoQuota
	}
	for _, w := range pods {
		all = append(all, w.Settings()...)
		c.pins.pods[w.Group], noQuota[w.Group] = w.PodUID, w.NoQuota
	}
	return all, noQuota
}

// record journals what the runtime is about to write.
func (c *controller) record(changes []place.Desired) error {
	if len(changes) == 0 {
		return nil
	}
	var all []plan.Desired
	for _, w := range changes {
		all = append(all, w.Settings()...)
	}
	return c.reconciler.Record(all)
}

// unpin puts all CPU sets back, at the end of an agent that is to leave nothing.
func (c *controller) unpin() {
	c.pins.asking.AtOnce() // there is no next pass
	c.reconciler.Want(nil)
	report, _ := c.reconciler.Pass(c.opts.Clock())
	for _, err := range report.Errors {
		c.fail("CPU sets", err)
	}
}
