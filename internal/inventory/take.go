package inventory

import (
	"maps"
	"slices"

	"github.com/berth-project/berth/internal/cluster"
	"github.com/berth-project/berth/internal/place"
	"github.com/berth-project/berth/internal/strategy"
	"github.com/berth-project/berth/internal/workload"
)

// Facts replaces what holds for the node as a whole, but for whether it is
// pinnable, and who sets memory nodes: Obstacle and Kubelet say that.
func (inv *Inventory) Facts(f place.Facts) {
	inv.facts = f
	inv.setFacts()
}

func (inv *Inventory) setFacts() {
	f := inv.facts
	o := inv.Obstacle()
	if o != inv.reported && inv.reported != (Obstacle{}) {
		inv.holdEvents() // what was refused because of the other one is not, now
	}
	inv.reported = o
	f.Pinnable, f.Reason, f.MemsOwner = o == Obstacle{}, o.Message, inv.owner.mems
	inv.node.SetFacts(f)
}

// Configure replaces the agent's own part in policies.
func (inv *Inventory) Configure(admin workload.Administrator) {
	inv.admin = admin
	if inv.snapshot.PodsFrom != cluster.Nowhere {
		inv.takePods(inv.snapshot.Pods)
	}
	inv.parse()
}

// Take takes over what the cluster says now.
func (inv *Inventory) Take(s *cluster.Snapshot) {
	inv.snapshot = s
	if s.PodsFrom != cluster.Nowhere {
		inv.takePods(s.Pods)
	}
	inv.owner.peers(s.Pods)
	inv.owner.agent = Obstacle{}
	if s.Lease.Other != "" {
		inv.owner.agent = Obstacle{Reason: OtherAgent, Message: "another agent holds the Lease of this node: " + s.Lease.Other}
	}
	inv.facts.AllocatableMilli = s.Node.AllocatableMilli
	inv.parse()
	inv.setFacts()
}

// takePods replaces the pods. Those that only the runtime has reported stay as long as
// it has a sandbox for them.
func (inv *Inventory) takePods(pods []*cluster.Pod) {
	inv.pods = make(map[string]*cluster.Pod, len(pods))
	all := make([]workload.Pod, 0, len(pods)+len(inv.early))
	for _, p := range pods {
		inv.pods[p.UID] = p
		delete(inv.early, p.UID)
	}
	maps.DeleteFunc(inv.early, func(uid string, _ *cluster.Pod) bool { return !inv.hasSandbox(uid) })
	inv.refuse()
	for _, p := range pods {
		all = append(all, inv.forPlace(p))
	}
	for _, p := range inv.early {
		all = append(all, inv.forPlace(p))
	}
	inv.dropSandboxes()
	inv.node.SetPods(all)
}

// dropSandboxes forgets sandboxes of unknown pods without a group, and what was answered for
// them: containerd does not report the end of a sandbox that is older than itself.
func (inv *Inventory) dropSandboxes() {
	for _, s := range slices.Collect(maps.Values(inv.sandboxes)) {
		_, early := inv.early[s.UID]
		if inv.pods[s.UID] == nil && !early && s.CgroupPath != "" && inv.host.EffectiveCPUs(s.CgroupPath).IsEmpty() {
			inv.removePod(s)
			inv.dropAnswersOf(s)
		}
	}
}

// forPlace returns the pod with the reason for which it gets no exclusive CPUs here.
func (inv *Inventory) forPlace(p *cluster.Pod) workload.Pod {
	pod := p.Pod
	pod.Excluded = inv.exclusion(p)
	return pod
}

// hasSandbox says whether the runtime has a sandbox of the pod.
func (inv *Inventory) hasSandbox(uid string) bool {
	for _, s := range inv.sandboxes {
		if s.UID == uid {
			return true
		}
	}
	return false
}

// parse reads the ConfigMaps again, or applies them to another node.
func (inv *Inventory) parse() {
	koordlet := false
	for _, p := range inv.snapshot.Pods {
		koordlet = koordlet || !p.Ended && strategy.Koordlet(&p.Pod)
	}
	inv.strategies, inv.problems = strategy.Parse(inv.snapshot.ConfigMaps, strategy.Facts{
		NodeLabels: inv.snapshot.Node.Labels, Koordlet: koordlet, Admin: inv.admin,
	}, inv.strategies)
}
