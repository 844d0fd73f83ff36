package tenants

import (
	"cmp"
	"maps"
	"slices"

	"github.com/berth-project/berth/internal/arbiter"
	"github.com/berth-project/berth/internal/cluster"
	"github.com/berth-project/berth/internal/strategy"
	"github.com/berth-project/berth/internal/workload"
)

// Facts replaces what holds for the node as a whole, but for whether it is
// pinnable, and who sets memory nodes: Obstacle and Kubelet say that.
func (t *Tenants) Facts(f arbiter.Facts) {
	t.facts = f
	t.tellFacts()
}

func (t *Tenants) tellFacts() {
	f := t.facts
	o := t.Obstacle()
	if o != t.standing && t.standing != (Obstacle{}) {
		t.holdNews() // what was refused because of the other one is not, now
	}
	t.standing = o
	f.Pinnable, f.Reason, f.MemsOwner = o == Obstacle{}, o.Message, t.owner.mems
	t.arbiter.SetFacts(f)
}

// Configure replaces the agent's own part in policies.
func (t *Tenants) Configure(admin workload.Administrator) {
	t.admin = admin
	t.parse()
}

// Take takes over what the cluster says now.
func (t *Tenants) Take(s *cluster.Snapshot) {
	t.snapshot = s
	if s.PodsFrom != cluster.Nowhere {
		t.takePods(s.Pods)
	}
	t.owner.peers(s.Pods)
	t.owner.agent = Obstacle{}
	if s.Lease.Other != "" {
		t.owner.agent = Obstacle{Reason: OtherAgent, Message: "another agent holds the Lease of this node: " + s.Lease.Other}
	}
	t.facts.AllocatableMilli = s.Node.AllocatableMilli
	t.parse()
	t.tellFacts()
}

// takePods replaces the pods. Those that only the runtime told of stay as long as
// it has a sandbox for them.
func (t *Tenants) takePods(pods []*cluster.Pod) {
	t.pods = make(map[string]*cluster.Pod, len(pods))
	all := make([]arbiter.Pod, 0, len(pods)+len(t.early))
	t.refused = t.capped(pods)
	for _, p := range pods {
		t.pods[p.UID] = p
		delete(t.early, p.UID)
		all = append(all, t.arbiterPod(p))
	}
	for uid := range t.early {
		if !t.hasSandbox(uid) {
			delete(t.early, uid)
			continue
		}
		all = append(all, t.provisional(uid))
	}
	t.dropSandboxes()
	t.arbiter.SetPods(all)
}

// dropSandboxes forgets sandboxes of pods that nobody knows any more and that have no
// group: containerd does not tell that a sandbox ended which is older than itself.
func (t *Tenants) dropSandboxes() {
	for _, s := range slices.Collect(maps.Values(t.sandboxes)) {
		_, early := t.early[s.UID]
		if t.pods[s.UID] == nil && !early && s.CgroupPath != "" && t.host.EffectiveCPUs(s.CgroupPath).IsEmpty() {
			t.removePod(s)
		}
	}
}

func (t *Tenants) arbiterPod(p *cluster.Pod) arbiter.Pod {
	return arbiter.Pod{Pod: p.Pod, Since: p.Bound, Ended: p.Ended, Excluded: cmp.Or(t.excluded(p), t.refused[p.UID])}
}

// hasSandbox says whether the runtime has a sandbox of the pod.
func (t *Tenants) hasSandbox(uid string) bool {
	for _, s := range t.sandboxes {
		if s.UID == uid {
			return true
		}
	}
	return false
}

// parse reads the ConfigMaps again, or applies them to another node.
func (t *Tenants) parse() {
	koordlet := false
	for _, p := range t.snapshot.Pods {
		koordlet = koordlet || !p.Ended && strategy.Koordlet(&p.Pod)
	}
	t.strategies, t.problems = strategy.Parse(t.snapshot.ConfigMaps, strategy.Facts{
		NodeLabels: t.snapshot.Node.Labels, Koordlet: koordlet, Admin: t.admin,
	}, t.strategies)
}
