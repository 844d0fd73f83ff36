package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/inventory"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/nri"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/workload"
)

// settleFor bounds how long an event of the runtime may wait for a pod to be known.
const settleFor = 350 * time.Millisecond

// asksForCPUs says that a container must not be made without an answer: its pod asks
// for exclusive CPUs, and would run on those of others.
func asksForCPUs(e nri.Event) bool {
	return e.Kind == nri.Create && workload.MayPin(e.Pod.Labels, e.Pod.Annotations)
}

// Handle answers the container runtime, from memory and the journal. It waits, and not
// for long, for a pod that the kubelet knew earlier than this agent, and at a
// start for systemd.
func (c *controller) Handle(ctx context.Context, e nri.Event) (nri.Reply, error) {
	deadline := time.Now().Add(settleFor)
	for {
		final := time.Now().After(deadline)
		reply, err := c.answer(e, final)
		if final || !errors.Is(err, inventory.ErrUnknownPod) {
			c.wake()
			if e.Kind == nri.Start { // what the container was given has to stand before it runs
				c.pins.asking.Await(ctx, e.Container.CgroupPath)
			}
			return reply, err
		}
		c.around.client.Refresh()
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return nri.Reply{}, fmt.Errorf("answer the runtime: %w", ctx.Err())
		}
	}
}

// answer decides, and journals what the runtime is about to write.
func (c *controller) answer(e nri.Event, final bool) (nri.Reply, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inventory.Now(c.opts.Clock())
	c.takeCluster()
	if asksForCPUs(e) && !c.machine.kubelet.Known() {
		return nri.Reply{}, errStarting
	}
	if e.Kind == nri.Update {
		c.yield(e.Pod.UID)
	}
	a, err := c.inventory.Handle(e, final)
	if err != nil {
		return nri.Reply{}, err
	}
	c.touch(e)
	if e.Kind == nri.Start || e.Kind == nri.PostUpdate {
		c.overtaken(e.Container.CgroupPath)
	}
	c.stale = true
	if err := c.takeSelf(&a); err != nil {
		c.fail("CPUs of the agent itself", err)
	}
	if err := c.record(a.Changes); err != nil {
		c.fail("journal", err)
		return nri.Reply{}, fmt.Errorf("answer the runtime: %w", err)
	}
	if err := c.pins.answers.Save(e, a.Reply, c.inventory.Answers); err != nil {
		c.fail("answers to the runtime", err) // it gets its CPUs all the same
	}
	return a.Reply, nil
}

// overtaken takes a container that is about to run off CPUs that another one was given
// after it was created: the runtime, which was asked to move it then, did not know it yet.
// The container may itself have other exclusive CPUs by now. So is one that was updated: the runtime
// answers others between asking what to write and writing it.
func (c *controller) overtaken(group string) {
	if group == "" || !c.mayPin() || c.isSelf(group) {
		return
	}
	wants, _ := c.inventory.Desired()
	i := slices.IndexFunc(wants, func(w inventory.Desired) bool { return w.Group == group })
	if i < 0 || (groups{c}).EffectiveCPUs(group).IsSubsetOf(wants[i].CPUs) {
		return
	}
	c.pins.groups = nil // the reconciler is given everything again
	if c.reconciler.Urgent(group, c.desiredOf(wants[i])) {
		c.pins.asking.Urgent(group)
	}
}

// touch has the groups looked at that the runtime, or the kubelet, writes around an
// event.
func (c *controller) touch(e nri.Event) {
	switch e.Kind {
	case nri.Start, nri.PostStart, nri.Update, nri.PostUpdate:
		c.reconciler.Touch(e.Pod.CgroupParent)
		c.reconciler.Touch(e.Container.CgroupPath)
	default:
	}
}

// groups reads what the inventory has to know of the host.
type groups struct{ c *controller }

// EffectiveCPUs are those that the group's processes may run on.
func (g groups) EffectiveCPUs(path string) cpuset.Set {
	group, err := g.c.host.Group(path)
	if err != nil {
		return cpuset.Set{} // gone, or not there yet
	}
	defer group.Close()
	cpus, err := group.EffectiveCPUs()
	if err != nil {
		return cpuset.Set{}
	}
	return cpus
}

// Journaled says whether the journal has the CPUs of this very group, and whether as
// set for its own pod.
func (g groups) Journaled(path string) (set, pinned bool) {
	e, ok := g.c.journal.Entry(cgroupfile.Target(path, cgroup.KnobCPUs))
	set = ok && g.same(e)
	return set, set && e.Owner == plan.OwnerPlace
}

// OriginalCPUs are those that the group would have without Berth: the list that the
// journal or the group has, else that of the next group above which has one. A group
// without any may have every CPU of the machine, also those that are offline.
func (g groups) OriginalCPUs(path string) cpuset.Set {
	for {
		list, err := g.originalList(path)
		if set, inherits, bad := list.List(); err == nil && bad == nil && !inherits {
			return set
		}
		if path == "" {
			return cpuset.Set{}
		}
		path = path[:max(strings.LastIndexByte(path, '/'), 0)]
	}
}

// originalList is the list of a group's own without Berth, cgroup.Inherit for none.
func (g groups) originalList(path string) (cgroup.Value, error) {
	group, err := g.c.host.Group(path)
	if err != nil {
		return "", fmt.Errorf("original CPUs: %w", err)
	}
	defer group.Close()
	if path == "" {
		return group.Unlimited(cgroup.KnobCPUs), nil
	}
	e, known := g.c.journal.Entry(cgroupfile.Target(path, cgroup.KnobCPUs))
	id, err := group.ID(cgroup.CPUSet)
	if known && err == nil && cgroupfile.Identity(id) == e.ID {
		return cgroup.Value(e.Original), nil
	}
	list, err := group.Read(cgroup.KnobCPUs)
	if err != nil {
		return "", fmt.Errorf("original CPUs: %w", err)
	}
	return list, nil
}

// same says whether the group is the one that the entry speaks of.
func (g groups) same(e journal.Entry) bool {
	group, err := g.c.host.Group(e.Target.Object)
	if err != nil {
		return false
	}
	defer group.Close()
	id, err := group.ID(cgroup.CPUSet)
	return err == nil && cgroupfile.Identity(id) == e.ID
}
