package agent

import (
	"fmt"

	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/cluster"
)

// clusterState is the agent's knowledge of its cluster.
type clusterState struct {
	connected *connections // nil on a host without Kubernetes
	taken     uint64       // generation of the last snapshot that was read
	// containers are those of the node's pods. settled is true once they are known.
	containers []workload.Workload
	settled    bool
	// stale is true if the containers were made of outdated data.
	stale bool
}

// changed returns a channel that signals news of the cluster.
func (s *clusterState) changed() <-chan struct{} {
	if s.connected == nil {
		return nil
	}
	return s.connected.client.Changed()
}

// node returns the cluster's data on this node, nil on a host without Kubernetes.
func (s *clusterState) node() *cluster.Node {
	if s.connected == nil {
		return nil
	}
	return &s.connected.client.Snapshot().Node
}

// takeCluster reads the cluster's snapshot, if it is new.
func (c *controller) takeCluster() {
	if c.cluster.connected == nil {
		return
	}
	if s := c.cluster.connected.client.Snapshot(); s.Generation != c.cluster.taken {
		c.cluster.taken = s.Generation
		c.inventory.Take(s)
		c.cluster.settled = s.PodsFrom != cluster.Nowhere
		c.reportProblems()
		c.cluster.stale = true
	}
}

// memorise writes the cluster's snapshot to disk, if it differs from the copy there.
func (c *controller) memorise() {
	if c.cluster.connected == nil {
		return
	}
	if err := c.cluster.connected.memory.Keep(c.cluster.connected.client.Snapshot(), c.opts.Clock()); err != nil {
		c.counts.fail("memory of the cluster", err)
	}
}

// receive makes workload groups of the containers that may burst or have exclusive CPUs.
func (c *controller) receive() {
	if c.cluster.connected == nil || !c.cluster.stale {
		return
	}
	c.cluster.stale = false
	containers, findings := c.assignment.Workloads()
	now := map[string]bool{}
	for uid, f := range findings {
		what := aboutBurst + uid
		now[what] = true
		c.reportOnce(what, uid, append(f.Refused, f.Warnings...).Err())
	}
	c.reported.forget(aboutBurst, now)
	c.cluster.containers = containers
	if err := c.loadWorkloads(); err != nil {
		c.counts.fail("workloads", err)
	}
}

// reportProblems reports ConfigMaps that cannot be read, and logs ignored ConfigMaps.
func (c *controller) reportProblems() {
	now := map[string]bool{}
	for _, p := range c.inventory.Policies.Problems() {
		what := aboutConfigMap + string(p.ConfigMap) + " " + p.Key + " " + p.Field
		now[what] = true
		c.reportOnce(what, "", p)
	}
	for _, i := range c.inventory.Policies.Strategies().Ignored() {
		what, why := aboutConfigMap+string(i.ConfigMap), fmt.Errorf("readPeerConfig in the agent's file does not list %s", i.Peer)
		now[what] = true
		if c.reported.isNew(what, why) {
			c.opts.Log.Info("ConfigMap ignored", "configMap", i.ConfigMap, "reason", why)
		}
	}
	c.reported.forget(aboutConfigMap, now)
}
