package agent

import (
	"fmt"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/cluster"
	"github.com/berth-project/berth/internal/workload"
)

// clusterState is what the agent knows of its cluster, nothing on a host without
// Kubernetes.
type clusterState struct {
	around *surroundings // nil on a host without Kubernetes
	taken  uint64        // generation of the snapshot that was taken
	// guests are the containers of the node's pods, settled says that they are known.
	guests  []workload.Workload
	settled bool
	// stale says that guests were not made of all that is known.
	stale bool
}

// changed is sent to when the cluster says something new.
func (s *clusterState) changed() <-chan struct{} {
	if s.around == nil {
		return nil
	}
	return s.around.client.Changed()
}

// node is what the cluster says of this node, nil on a host without Kubernetes.
func (s *clusterState) node() *cluster.Node {
	if s.around == nil {
		return nil
	}
	return &s.around.client.Snapshot().Node
}

// takeCluster takes over what the cluster says, if that is new, and makes workload groups
// of the containers that may burst.
func (c *controller) takeCluster() {
	if c.around == nil {
		return
	}
	if s := c.around.client.Snapshot(); s.Generation != c.taken {
		c.taken = s.Generation
		c.inventory.Take(s)
		c.settled = s.PodsFrom != cluster.Nowhere
		c.tellProblems()
		c.stale = true
	}
}

// memorise writes what the cluster says to disk, if it differs from what is there.
func (c *controller) memorise() {
	if c.around == nil {
		return
	}
	if err := c.around.memory.Keep(c.around.client.Snapshot(), c.opts.Clock()); err != nil {
		c.fail("memory of the cluster", err)
	}
}

// receive makes workload groups of the containers that may burst, or have exclusive CPUs.
func (c *controller) receive() {
	if c.around == nil || !c.stale {
		return
	}
	c.stale = false
	guests, findings := c.inventory.Workloads()
	now := map[string]bool{}
	for uid, f := range findings {
		what := aboutBurst + uid
		now[what] = true
		c.tellOnce(what, v1alpha1.EventInvalidPolicy, uid, append(f.Refused, f.Warnings...).Err())
	}
	c.reported.forget(aboutBurst, now)
	c.guests = guests
	if err := c.loadWorkloads(); err != nil {
		c.fail("workloads", err)
	}
	c.burst.Pool().Follow(c.inventory.Strategies())
}

// tellProblems reports ConfigMaps that cannot be read, and logs those that do not count.
func (c *controller) tellProblems() {
	now := map[string]bool{}
	for _, p := range c.inventory.Problems() {
		what := aboutConfigMap + string(p.ConfigMap) + " " + p.Key + " " + p.Field
		now[what] = true
		c.tellOnce(what, v1alpha1.EventInvalidPolicy, "", p)
	}
	for _, i := range c.inventory.Strategies().Ignored() {
		what, why := aboutConfigMap+string(i.ConfigMap), fmt.Errorf("readPeerConfig in the agent's file does not list %s", i.Peer)
		now[what] = true
		if c.reported.isNew(what, why) {
			c.opts.Log.Info("ConfigMap ignored", "configMap", i.ConfigMap, "reason", why)
		}
	}
	c.reported.forget(aboutConfigMap, now)
}
