package agent

import (
	"errors"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/arbiter"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/pinning"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/tenants"
	"github.com/berth-project/berth/internal/unit"
)

// errStarting is what the runtime is told about containers that ask for CPUs of
// their own while it is not known yet whether Berth may give them any.
var errStarting = errors.New("the agent is starting")

// pins is what the controller knows of CPU sets.
type pins struct {
	keeper *pinning.Keeper
	// wanted is what the groups should have now, wishes what the keeper was told.
	wanted, wishes []pinning.Wish
	groups         []pinning.Status
	// pods has the UID of the pod of every group with a wish, lifted the groups
	// that run without a quota.
	pods   map[string]string
	lifted map[string]bool
	writes uint64
}

// planPins finds out what the groups should have, and takes the quotas that are to be
// lifted out of burst's hands: what it raised is put back before they are.
func (c *controller) planPins() {
	if c.around == nil && c.moved {
		c.moved = false
		c.house.Residents(c.residents(), c.opts.Config.SharedPool)
	}
	if !c.mayPin() {
		return
	}
	c.pins.wanted = c.wishes()
	for _, m := range c.order {
		if m.group != nil && m.state != StatePending && c.pins.lifted[m.group.Path()] {
			c.settleState(m)
		}
	}
}

// pinAll brings what the arbiter wishes to the groups.
func (c *controller) pinAll(now time.Duration) {
	defer c.tellNews()
	if !c.mayPin() {
		return
	}
	if !slices.Equal(c.pins.wanted, c.pins.wishes) || c.pins.groups == nil {
		c.pins.wishes = c.pins.wanted
		c.pins.keeper.Want(c.pins.wishes)
	}
	report, _ := c.pins.keeper.Pass(now)
	c.pins.groups = report.Groups
	c.node.exclusive = cpuset.Set{}
	for _, w := range c.pins.wishes {
		if w.Pinned {
			c.node.exclusive = c.node.exclusive.Union(w.CPUs)
		}
	}
	c.pins.writes += uint64(report.Writes)
	c.takeReport(report)
}

// takeReport takes over what a pass found.
func (c *controller) takeReport(report pinning.Report) {
	for _, g := range report.Groups {
		if g.State == pinning.Applied && !g.CPUs.IsEmpty() {
			c.house.Saw(g.Wish.Group, g.CPUs)
		}
	}
	for _, n := range report.News {
		if n.Reason == pinning.HostDrift {
			c.drifts++
		}
		c.tell(c.pins.pods[n.Group], n.Reason, n.Text, true)
	}
	for _, err := range report.Errors {
		c.fail("CPU sets", err)
	}
}

// mayPin says whether enough is known to change CPU sets, or to put them back. An
// agent that was just started knows nobody yet, and must not take that for nobody
// being there.
func (c *controller) mayPin() bool {
	if c.machine.topology == nil || c.around == nil {
		return c.machine.topology != nil
	}
	return c.settled && !c.house.Obstacle().Passing()
}

// residents are the workloads of a host without Kubernetes whose group is known.
func (c *controller) residents() []tenants.Resident {
	var all []tenants.Resident
	for _, m := range c.order {
		if m.group != nil {
			all = append(all, tenants.Resident{Workload: m.workload, Group: m.group.Path()})
		}
	}
	return all
}

// wishes turns what the arbiter wishes into what the groups should have.
func (c *controller) wishes() []pinning.Wish {
	wants, pods := c.house.Wants()
	wishes := make([]pinning.Wish, 0, len(wants)+len(pods))
	c.pins.pods, c.pins.lifted = map[string]string{}, map[string]bool{}
	for _, w := range wants {
		wishes = append(wishes, c.wishOf(w))
		c.pins.pods[w.Group], c.pins.lifted[w.Group] = w.PodUID, w.NoQuota
	}
	for _, w := range pods {
		wishes = append(wishes, pinning.Wish{Group: w.Group, NoQuota: w.NoQuota, Workload: w.Serves, Why: w.Why})
		c.pins.pods[w.Group], c.pins.lifted[w.Group] = w.PodUID, w.NoQuota
	}
	return wishes
}

func (c *controller) wishOf(w tenants.Want) pinning.Wish {
	return pinning.Wish{
		Group: w.Group, CPUs: w.CPUs, Mems: w.Mems, Pinned: w.Pinned, NoQuota: w.NoQuota,
		Below: true, Made: w.Made, Limit: c.limitOf(w.Wish),
		Workload: w.Serves, Why: w.Why,
	}
}

// limitOf is what the spec of a container limits it to, 0 for nothing.
func (c *controller) limitOf(w arbiter.Wish) unit.CPUs {
	p := c.house.Pod(w.PodUID)
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
func (c *controller) record(changes []tenants.Want) error {
	if len(changes) == 0 {
		return nil
	}
	wishes := make([]pinning.Wish, 0, len(changes))
	for _, w := range changes {
		wishes = append(wishes, c.wishOf(w))
	}
	c.pins.groups = nil // the keeper is told all wishes again: these may come to nothing
	return c.pins.keeper.Record(wishes)
}

// unpin puts all CPU sets back, at the end of an agent that is to leave nothing.
func (c *controller) unpin() {
	c.pins.keeper.Want(nil)
	report, _ := c.pins.keeper.Pass(c.opts.Clock())
	for _, err := range report.Errors {
		c.fail("CPU sets", err)
	}
}

// stays says that an entry outlives the agent: a running pod is never unpinned
// because the agent is replaced.
func (c *controller) stays(owner plan.Owner) bool {
	return owner != plan.OwnerBurst && !c.opts.RestoreOnStop
}
