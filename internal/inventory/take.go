package inventory

import (
	"slices"

	"github.com/berth-project/berth/internal/cluster"
	"github.com/berth-project/berth/internal/place"
	"github.com/berth-project/berth/internal/strategy"
	"github.com/berth-project/berth/internal/workload"
)

// Facts replaces the facts of the whole node, except whether it is pinnable, and who sets memory nodes: these come from
// Obstacle and Kubelet.
func (inv *Inventory) Facts(f place.Facts) {
	inv.facts = f
	inv.setFacts()
}

func (inv *Inventory) setFacts() {
	inv.running.made = false
	f := inv.facts
	o := inv.Obstacle()
	if o != inv.reported && inv.reported != (Obstacle{}) {
		inv.holdEvents() // the refusals because of the old obstacle have ended
	}
	inv.reported = o
	f.Pinnable, f.Reason, f.MemsOwner = o == Obstacle{}, o.Message, inv.owner.mems
	inv.node.SetFacts(f)
}

// Configure replaces the agent's own part of the policies.
func (inv *Inventory) Configure(admin workload.Administrator) {
	inv.admin, inv.alone, inv.running.made = admin, nil, false
	inv.parse(inv.snapshot)
	inv.takePods()
}

// Take replaces the cluster's data.
func (inv *Inventory) Take(s *cluster.Snapshot) {
	inv.snapshot = s
	inv.parse(s)
	inv.takePods()
	inv.owner.peers(s.Pods)
	inv.owner.agent, inv.owner.restoring = Obstacle{}, Obstacle{}
	if inv.strategies.Restores() {
		inv.owner.restoring = Obstacle{Reason: Restoring, Message: strategy.KeyState + ": " + strategy.StateRestore + " in ConfigMap " + string(strategy.BerthConfig)}
	}
	if s.Lease.Other != "" {
		inv.owner.agent = Obstacle{Reason: OtherAgent, Message: "another agent holds the Lease of this node: " + s.Lease.Other}
	}
	inv.facts.AllocatableMilli = s.Node.AllocatableMilli
	inv.setFacts()
}

// takePods replaces the pods by those of the snapshot, if it has pods.
func (inv *Inventory) takePods() {
	if inv.snapshot.PodsFrom == cluster.Nowhere {
		return
	}
	inv.replacePods(inv.snapshot.Pods, inv.containers.hasSandbox)
	inv.refuse()
	all := make([]workload.Pod, 0, len(inv.snapshot.Pods)+len(inv.early))
	for _, p := range inv.snapshot.Pods {
		all = append(all, inv.forPlace(p))
	}
	for _, p := range inv.early {
		all = append(all, inv.forPlace(p))
	}
	for _, s := range inv.containers.ended(inv.knows) {
		inv.removePod(s)
		inv.containers.answers.dropOf(s, !inv.containers.hasSandbox(s.UID))
	}
	inv.node.SetPods(all)
}

// forPlace returns the pod with its class (offline or not), and the reason why it gets no exclusive CPUs here.
func (inv *Inventory) forPlace(p *cluster.Pod) workload.Pod {
	pod := p.Pod
	pod.Offline = inv.strategiesNow().Class(&p.Pod, p.BestEffort).Offline()
	if why := excluded(p, inv.containers.handlers(p.UID)); why != "" {
		pod.Excluded.Why = why
	} else if why := inv.caps.refused[p.UID]; why != "" {
		// The rule may be newer than the pod's CPUs.
		pod.Excluded = workload.Exclusion{Why: why, KeepsOwn: true}
	} else {
		pod.Excluded.Why = inv.owner.ofPod(p.UID)
	}
	return pod
}

// excluded returns why a pod gets no exclusive CPUs, "" if it may get some: it runs in a virtual machine. handlers are
// the handlers of its sandboxes.
func excluded(p *cluster.Pod, handlers []string) string {
	for _, h := range slices.Insert(handlers, 0, p.RuntimeClass) {
		if workload.StartsVM(h) {
			return "its runtime handler " + h + " starts a virtual machine"
		}
	}
	return ""
}
