package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-project/berth/internal/node/inventory"
	"github.com/berth-project/berth/internal/node/nri"
)

// errEnded answers the runtime about containers that ask for exclusive CPUs after the agent has ended.
var errEnded = errors.New("the agent is ending")

// settleFor bounds how long an event of the runtime may wait for a pod to be known.
const settleFor = 350 * time.Millisecond

// Handle answers the container runtime, from memory and the journal. It waits briefly for a pod that the kubelet knew
// before this agent, and at the start of a container for systemd.
func (c *controller) Handle(ctx context.Context, e nri.Event) (nri.Reply, error) {
	deadline := time.Now().Add(settleFor)
	for {
		final := time.Now().After(deadline)
		reply, err := c.answer(e, final)
		if final || !errors.Is(err, inventory.ErrUnknownPod) {
			c.wake()
			if e.Kind == nri.Start { // the container's settings must be in effect before it runs
				c.beside.asking.Await(ctx, e.Container.CgroupPath)
			}
			return reply, err
		}
		c.cluster.connected.client.Refresh()
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return nri.Reply{}, fmt.Errorf("answer the runtime: %w", ctx.Err())
		}
	}
}

// answer decides with the present state of the cluster. Before the kubelet resizes a container, it restores the
// container's own limit. After the end of the agent an event changes nothing, as if the connection had ended: a
// restored value would be written again, and nobody would restore it.
func (c *controller) answer(e nri.Event, final bool) (nri.Reply, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.turns.ended && mustAnswer(e):
		return nri.Reply{}, errEnded
	case c.turns.ended:
		return nri.Reply{}, nil
	}
	c.inventory.Now(c.opts.Clock())
	c.takeCluster()
	if e.Kind == nri.Update {
		each(c, func(y yielder) { y.Yield(e.Pod.UID) })
		moveQuotas(c) // before the runtime gets the answer and writes the new limit
	}
	c.cluster.stale = true
	for _, one := range c.capabilities {
		if a, answers := one.(answerer); answers { // there is one: an answer is journaled before it leaves
			return a.Answer(e, final)
		}
	}
	return nri.Reply{}, nil
}
