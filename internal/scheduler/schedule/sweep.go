package schedule

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

const (
	// lookEvery is how often the agents' Leases are compared with the clock.
	lookEvery = time.Second
	// sweepEvery is the interval of the sweeps for what events may have missed. keepReleased is for how many sweeps a
	// reservation is remembered after its end.
	sweepEvery   = 15 * time.Second
	keepReleased = 2
	// keepAbsent is for how many sweeps a bound pod is assumed to exist without being in the informer, which may lag
	// behind a direct answer of the API server.
	keepAbsent = 4
)

// start starts to follow what the plugin needs to know, until ctx ends.
func (c *core) start(ctx context.Context, topologies cache.ListerWatcher) error {
	c.background.ctx = ctx
	if err := c.watchPods(); err != nil {
		return err
	}
	if topologies == nil && c.handle.KubeConfig() != nil {
		source, err := topologyLister(c.handle.KubeConfig())
		if err != nil {
			return err
		}
		topologies = source
	}
	if err := c.watchOwn(ctx, topologies); err != nil {
		return err
	}
	c.background.spawn(c.maintain)
	return nil
}

// maintain does the periodic work.
func (c *core) maintain(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	swept := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			c.agents.lookAtAgents(now)
			c.queue.try(c.queue.look())
			if now.Sub(swept) >= sweepEvery {
				c.sweep()
				swept = now
			}
		}
	}
}

// sweep drops what is known about pods that no longer exist, and counts the others.
func (c *core) sweep() {
	pods := c.handle.SharedInformerFactory().Core().V1().Pods().Lister()
	gone := func(namespace, name string, uid types.UID) bool {
		pod, err := pods.Pods(namespace).Get(name)
		return err != nil || pod.UID != uid
	}
	c.queue.sweep(gone)
	c.invalid.sweep(gone)
	c.shortages.sweep(gone)
	c.repacks.known.sweep(gone)
	c.tries.sweep(gone)
	c.nodes.sums.sweep(gone)
	var found tally
	for _, n := range c.nodes.all() {
		var dropped []*record
		n.mu.Lock()
		for uid, r := range n.records {
			if r.spent(uid, n.name, pods) {
				n.drop(uid)
				dropped = append(dropped, r)
				continue
			}
			if r.held.Unknown() > 0 {
				found.unknown++
			}
		}
		found.hits += float64(n.memo.hits.Swap(0))
		found.misses += float64(n.memo.misses)
		n.memo.misses = 0
		n.mu.Unlock()
		c.dropped(n, dropped)
	}
	found.hits += float64(c.answers.walked.Swap(0))
	found.reserved, found.ambiguous = c.flights.size()
	found.waiting = c.queue.size()
	found.fragmented = c.shortages.count()
	c.meters.count(found)
}

// dropped handles the consequences of dropped records of a node.
func (c *core) dropped(n *node, records []*record) {
	freed := false
	for _, r := range records {
		pod := r.pod
		freed = freed || r.holds()
		if c.flights.at(pod.UID) == "" && !c.flights.isAmbiguous(pod.UID) && c.shownBound(pod) == nil {
			c.uncount(pod.Namespace, pod.UID)
		}
	}
	c.nodes.forget(n)
	if freed {
		c.queue.activate(refusedByCPUs | refusedByPromise)
	}
}

// spent reports whether a record has no meaning any more.
func (r *record) spent(uid types.UID, node string, pods corelisters.PodLister) bool {
	if r.reserved && !r.confirmed {
		return false
	}
	if r.sweeps > 0 && !r.confirmed {
		r.sweeps++
		return r.sweeps > keepReleased
	}
	pod, err := pods.Pods(r.pod.Namespace).Get(r.pod.Name)
	if err != nil || pod.UID != uid {
		r.sweeps++
		return r.sweeps > keepAbsent
	}
	r.sweeps = 0
	// A pod that the informer still shows unbound is bound: nothing is ever unbound.
	return pod.Spec.NodeName != "" && pod.Spec.NodeName != node
}
