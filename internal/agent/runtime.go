package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/inventory"
	"github.com/berth-project/berth/internal/nri"
	"github.com/berth-project/berth/internal/place"
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
		c.burst.Yield(e.Pod.UID)
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
	if group == "" || !c.mayPin() || c.self.Is(group) {
		return
	}
	wants, _ := c.inventory.Desired()
	i := slices.IndexFunc(wants, func(w place.Desired) bool { return w.Group == group })
	if i < 0 || c.machine.groups.EffectiveCPUs(group).IsSubsetOf(wants[i].CPUs) {
		return
	}
	if c.reconciler.Urgent(group, wants[i].Settings()) {
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

// takeSelf takes what concerns the agent's own group out of what the runtime is
// about to write, and does it here.
func (c *controller) takeSelf(a *inventory.Answer) error {
	at := slices.IndexFunc(a.Changes, func(w place.Desired) bool { return c.self.Is(w.Group) })
	if at < 0 {
		return nil
	}
	own := a.Changes[at]
	a.Changes = slices.Delete(a.Changes, at, at+1)
	a.Reply.Updates = slices.DeleteFunc(a.Reply.Updates, func(u nri.Change) bool { return u.ContainerID == own.ContainerID })
	c.self.CPUs = own.CPUs
	return c.self.Shrink(c.machine.online)
}
