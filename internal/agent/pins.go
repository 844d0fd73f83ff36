package agent

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/inventory"
	"github.com/berth-project/berth/internal/place"
	"github.com/berth-project/berth/internal/reconcile"
	"github.com/berth-project/berth/internal/statedir"
	"github.com/berth-project/berth/internal/unit"
)

// errStarting is the answer to the runtime about containers that ask for exclusive
// CPUs while it is not known yet whether Berth may give them any.
var errStarting = errors.New("the agent is starting")

// pins is what the controller knows of CPU sets.
type pins struct {
	reconciler *reconcile.Reconciler
	// units is what the reconciler leaves to systemd, nil where that does not run.
	units *reconcile.Later
	// urgent are closed when systemd was asked for the group of a container that is
	// about to run.
	urgent map[string]chan struct{}
	// desired is what the groups should have now, given what the reconciler was given.
	desired, given []reconcile.Desired
	groups         []reconcile.Status
	// pods has the UID of the pod of every group in desired.
	pods   map[string]string
	writes uint64
	// answers is what the runtime was answered, on disk.
	answers *statedir.Answers
}

// planPins finds out what the groups should have, and takes the quotas that are to
// become unlimited out of burst's hands: what burst raised is put back before that.
func (c *controller) planPins() {
	if c.around == nil && c.moved {
		c.moved = false
		c.inventory.SetStandalone(c.standalone(), c.opts.Config.SharedPool)
	}
	if !c.mayPin() {
		return
	}
	c.pins.desired = c.desired()
	for _, m := range c.order {
		if m.group != nil && m.state != StatePending && c.unlimited[m.group.Path()] {
			c.settleState(m)
		}
	}
}

// pinAll brings the desired CPU sets to the groups.
func (c *controller) pinAll(now time.Duration) {
	defer c.tellNews()
	if !c.mayPin() {
		return
	}
	if !slices.Equal(c.pins.desired, c.pins.given) || c.pins.groups == nil {
		c.pins.given = c.pins.desired
		c.pins.reconciler.Want(c.pins.given)
	}
	if err := c.self.Shrink(c.node.online); err != nil {
		c.fail("CPUs of the agent itself", err)
	}
	report, _ := c.pins.reconciler.Pass(now)
	c.pins.groups = report.Groups
	c.node.exclusive = c.inventory.Exclusive()
	c.pins.writes += uint64(report.Writes)
	c.takeReport(report)
}

// takeReport takes over what a pass found.
func (c *controller) takeReport(report reconcile.Report) {
	for _, g := range report.Groups {
		if g.State == reconcile.StateApplied && !g.CPUs.IsEmpty() {
			c.inventory.Saw(g.Desired.Group, g.CPUs)
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

// askFor is how long systemd is asked between two passes. What is left after that the
// next one plans anew.
const askFor = 100 * time.Millisecond

// askUnits has systemd write what the last pass left to it, and says whether the next
// one is due because of it. Only the loop calls it, so that nothing is asked after what
// came later. The mutex is not held meanwhile: the runtime is answered, and what is not
// desired any more because of that is left out.
func (c *controller) askUnits() bool {
	if c.pins.units == nil {
		return false
	}
	until := c.opts.Clock() + askFor
	first, rest, urgent := c.takeAsks()
	c.ask(first, until)
	c.tellAsked(urgent)
	c.ask(rest, until)
	if len(first)+len(rest) == 0 {
		return false
	}
	c.hurry()
	return true
}

// takeAsks returns what systemd is to be asked for, apart what the runtime waits for, and
// who waits for that.
func (c *controller) takeAsks() (first, rest []reconcile.Ask, urgent map[string]chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	urgent = maps.Clone(c.pins.urgent)
	awaited := map[string]bool{}
	for group := range urgent {
		awaited[reconcile.UnitOf(group)] = true
	}
	for _, a := range c.pins.units.Take() {
		if awaited[a.Unit] {
			first = append(first, a)
		} else {
			rest = append(rest, a)
		}
	}
	return first, rest, urgent
}

// tellAsked reports to those who wait for it that systemd was asked.
func (c *controller) tellAsked(urgent map[string]chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for group, asked := range urgent {
		close(asked)
		if c.pins.urgent[group] == asked {
			delete(c.pins.urgent, group)
		}
	}
}

// ask asks systemd for what is still desired, until it is too late for the rest.
func (c *controller) ask(asks []reconcile.Ask, until time.Duration) {
	for _, a := range asks {
		if c.opts.Clock() >= until {
			return
		}
		c.mu.Lock()
		still := c.pins.reconciler.StillAsks(a)
		c.mu.Unlock()
		if still {
			c.pins.units.Do(a)
		}
	}
}

// awaitUnit waits until systemd was asked for what a container that is about to run
// urgently needs, but not for a systemd that takes its time: meanwhile the runtime would go on
// without an answer, and make containers on CPUs of others.
func (c *controller) awaitUnit(ctx context.Context, group string) {
	c.mu.Lock()
	asked := c.pins.urgent[group]
	c.mu.Unlock()
	if asked == nil {
		return
	}
	select {
	case <-asked:
	case <-time.After(askFor):
	case <-ctx.Done():
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

// desired turns what place decided into what the groups should have.
func (c *controller) desired() []reconcile.Desired {
	wants, pods := c.inventory.Desired()
	all := make([]reconcile.Desired, 0, len(wants)+len(pods))
	c.pins.pods, c.unlimited = map[string]string{}, map[string]bool{}
	c.self.CPUs = cpuset.Set{}
	for _, w := range wants {
		if c.self.Is(w.Group) {
			c.self.CPUs = w.CPUs
			continue
		}
		all = append(all, c.desiredOf(w))
		c.pins.pods[w.Group], c.unlimited[w.Group] = w.PodUID, w.NoQuota
	}
	for _, w := range pods {
		all = append(all, reconcile.Desired{Group: w.Group, NoQuota: w.NoQuota, Workload: w.Serves, Why: w.Why})
		c.pins.pods[w.Group], c.unlimited[w.Group] = w.PodUID, w.NoQuota
	}
	return all
}

func (c *controller) desiredOf(w inventory.Desired) reconcile.Desired {
	return reconcile.Desired{
		Group: w.Group, CPUs: w.CPUs, Mems: w.Mems, Pinned: w.Pinned, NoQuota: w.NoQuota,
		Below: true, Made: w.Made, Limit: c.limitOf(w.Desired),
		Workload: w.Serves, Why: w.Why,
	}
}

// limitOf is what the spec of a container limits it to, 0 for nothing.
func (c *controller) limitOf(w place.Desired) unit.CPUs {
	p := c.inventory.Pod(w.PodUID)
	if p == nil {
		return 0
	}
	for _, one := range slices.Concat(p.Containers, p.Init) {
		if one.Name == w.Container {
			return unit.MilliCPUs(one.CPULimit)
		}
	}
	return 0
}

// record journals what the runtime is about to write.
func (c *controller) record(changes []inventory.Desired) error {
	if len(changes) == 0 {
		return nil
	}
	all := make([]reconcile.Desired, 0, len(changes))
	for _, w := range changes {
		all = append(all, c.desiredOf(w))
	}
	c.pins.groups = nil // the reconciler is given everything again: these may come to nothing
	return c.pins.reconciler.Record(all)
}

// unpin puts all CPU sets back, at the end of an agent that is to leave nothing.
func (c *controller) unpin() {
	if c.pins.units != nil {
		c.pins.units.AtOnce() // there is no next pass
	}
	c.pins.reconciler.Want(nil)
	report, _ := c.pins.reconciler.Pass(c.opts.Clock())
	for _, err := range report.Errors {
		c.fail("CPU sets", err)
	}
}
