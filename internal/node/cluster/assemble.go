package cluster

import (
	"context"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-project/berth/internal/node/apiclient"
)

const (
	// grace is how long the API server may be silent before the kubelet's list is used.
	grace = 3 * time.Second
	// assembleEvery is how often grace is checked.
	assembleEvery = time.Second
	// assembleLeast is the shortest interval between two snapshots.
	assembleLeast = 5 * time.Millisecond
)

// lost remembers that the API server removed a pod. The kubelet lists the pod a while longer, and an older list of the
// kubelet must not bring it back.
func (c *Client) lost(pod *Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone[pod.UID] = time.Now()
}

// assemble makes snapshots until ctx ends. While the API server answers, it sleeps until something changes.
func (c *Client) assemble(ctx context.Context) {
	timer := time.NewTimer(assembleEvery)
	defer timer.Stop()
	for {
		timer.Stop()
		if c.link.doubtful() || c.Snapshot().Away != nil {
			timer.Reset(assembleEvery)
		}
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		case <-timer.C:
			if !c.stale(time.Now()) {
				continue
			}
		}
		c.make(time.Now())
		if !apiclient.Pause(ctx, assembleLeast) {
			return
		}
	}
}

// stale reports whether the API server is away now, or was away in the last snapshot.
func (c *Client) stale(now time.Time) bool {
	_, err := c.link.away(now, grace)
	return err != nil || c.Snapshot().Away != nil
}

// make stores a new snapshot if it differs from the last one.
func (c *Client) make(now time.Time) {
	last := c.Snapshot()
	next := &Snapshot{Generation: last.Generation + 1, Lease: c.lessee.current()}
	next.AwaySince, next.Away = c.link.away(now, grace)
	c.asker.setAway(next.Away != nil)
	next.ConfigMaps, next.ConfigMapsRead = c.watches.config(c.options.Memory.ConfigMaps)
	next.Node = last.Node // While the node is being created again, its last state remains.
	if nodes, _ := c.watches.nodes.all(); len(nodes) == 1 {
		next.Node = nodes[0]
	}
	next.Pods, next.PodsFrom = c.pods(now, next.AwaySince)
	keep(last.Pods, next.Pods)
	c.report(last, next)
	if !differs(last, next) {
		return
	}
	c.current.Store(next)
	if last.Node.UID != next.Node.UID {
		c.topology.wake.Soon()
	}
	c.changed.Soon()
}

func (c *Client) pods(now, awaySince time.Time) ([]*Pod, Source) {
	v := view{awaySince: awaySince, before: c.options.Memory.Pods}
	v.api, v.listed = c.watches.pods.all()
	v.kubelet, v.asked, _ = c.asker.last()
	c.mu.Lock()
	c.prune(v)
	v.gone = maps.Clone(c.gone)
	c.mu.Unlock()
	return v.pods(now)
}

// settled is how long the kubelet may still list a pod after the API server removed it, in a request that was in
// flight.
const settled = 5 * time.Second

// prune forgets the pods that the kubelet no longer lists, and the pods that came back. The caller holds mu.
func (c *Client) prune(v view) {
	if len(c.gone) == 0 {
		return
	}
	listed := make(map[string]bool, len(v.kubelet))
	for _, pod := range v.kubelet {
		listed[pod.UID] = true
	}
	back := make(map[string]bool, len(v.api))
	for _, pod := range v.api {
		back[pod.UID] = true
	}
	maps.DeleteFunc(c.gone, func(uid string, at time.Time) bool {
		return back[uid] || c.options.Kubelet == nil || !listed[uid] && v.asked.After(at.Add(settled))
	})
}

// keep replaces new readings that are equal to earlier ones by the earlier pointers.
func keep(before, now []*Pod) {
	known := make(map[string]*Pod, len(before))
	for _, pod := range before {
		known[pod.UID] = pod
	}
	for i, pod := range now {
		if old := known[pod.UID]; old != nil && old != pod && old.same(pod) {
			now[i] = old
		}
	}
}

func differs(a, b *Snapshot) bool {
	return a.PodsFrom != b.PodsFrom || !slices.Equal(a.Pods, b.Pods) ||
		a.ConfigMapsRead != b.ConfigMapsRead || !maps.EqualFunc(a.ConfigMaps, b.ConfigMaps, maps.Equal) ||
		a.Node.UID != b.Node.UID || a.Node.AllocatableMilli != b.Node.AllocatableMilli || !maps.Equal(a.Node.Labels, b.Node.Labels) ||
		a.Lease.Held != b.Lease.Held || a.Lease.Other != b.Lease.Other || a.AwaySince != b.AwaySince
}

// report logs what became worse or better.
func (c *Client) report(last, next *Snapshot) {
	log := c.options.Log
	switch {
	case last.AwaySince.IsZero() && !next.AwaySince.IsZero():
		log.Warn("API server does not answer", "since", next.AwaySince, "error", next.Away)
	case !last.AwaySince.IsZero() && next.AwaySince.IsZero():
		log.Info("API server answers again", "away", time.Since(last.AwaySince).Round(time.Second).String())
	}
	if last.PodsFrom != next.PodsFrom && next.PodsFrom != Nowhere {
		_, _, err := c.asker.last()
		log.Info("Source of pods", "from", next.PodsFrom.String(), "pods", len(next.Pods), "kubelet", err)
	}
	switch {
	case next.Lease.Other != "" && last.Lease.Other != next.Lease.Other:
		log.Error("Another agent is at work on this node; this one writes nothing", "other", next.Lease.Other, "this", c.options.Identity)
	case next.Lease.Held && !last.Lease.Held:
		log.Info("This agent is the one of the node", "identity", c.options.Identity)
	}
}

func (c *Client) held() bool { return c.lessee.current().Held }

// onLease wakes the writers, which may now be allowed to write, and requests a new snapshot.
func (c *Client) onLease() {
	c.topology.wake.Soon()
	c.notes.wake.Soon()
	c.wake.Soon()
}

// owner returns a reference to the node, so that its objects are deleted with it; nil while the node is unknown.
func (c *Client) owner() *metav1.OwnerReference {
	node := c.Snapshot().Node
	if node.UID == "" {
		return nil
	}
	return &metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: c.options.Node, UID: types.UID(node.UID)}
}
