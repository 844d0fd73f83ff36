package inventory

import (
	"github.com/berth-project/berth/internal/intent/strategy"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/observed"
)

// Configure replaces the agent's own part of the policies.
func (inv *Inventory) Configure(admin workload.Administrator) {
	inv.Policies.admin, inv.Policies.alone, inv.running.made = admin, nil, false
	inv.Policies.parse(inv.snapshot)
	inv.takePods()
}

// Take replaces the cluster's data.
func (inv *Inventory) Take(s *cluster.Snapshot) {
	inv.snapshot = s
	inv.Policies.parse(s)
	inv.takePods()
	inv.owner.peers(s.Pods)
	inv.owner.agent, inv.owner.restoring = observed.Obstacle{}, observed.Obstacle{}
	if inv.Policies.strategies.Restores() {
		inv.owner.restoring = observed.Obstacle{Reason: observed.Restoring, Message: strategy.KeyState + ": " + strategy.StateRestore + " in ConfigMap " + string(strategy.BerthConfig)}
	}
	if s.Lease.Other != "" {
		inv.owner.agent = observed.Obstacle{Reason: observed.OtherAgent, Message: "another agent holds the Lease of this node: " + s.Lease.Other}
	}
	inv.running.made = false
	inv.changes.add(Change{What: ClusterSeen, AllocatableMilli: s.Node.AllocatableMilli})
}

// takePods replaces the pods by those of the snapshot, if it has pods.
func (inv *Inventory) takePods() {
	if inv.snapshot.PodsFrom == cluster.Nowhere {
		return
	}
	inv.Pods.replace(inv.snapshot.Pods, inv.containers.HasSandbox)
	for _, s := range inv.containers.ended(inv.Pods.knows) {
		inv.removePod(s)
		inv.containers.answers.dropOf(s, !inv.containers.HasSandbox(s.UID))
	}
	inv.changes.add(Change{What: PodsListed})
}
