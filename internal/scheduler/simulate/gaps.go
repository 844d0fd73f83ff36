package simulate

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-project/berth/internal/intent/kubepod"
)

// Gap is a mechanism that decides in a real cluster but not here.
type Gap struct {
	// What is the name that Kubernetes uses.
	What string `json:"what"`
	// Effect is how a real cluster may differ.
	Effect string `json:"effect"`
	// Count is how many pods or nodes of the input use it; 0 in the general list.
	Count int `json:"count,omitempty"`
}

// gap is a Gap and its test for pods and nodes.
type gap struct {
	Gap
	pod  func(*v1.Pod) bool
	node func(*v1.Node) bool
}

// Gaps returns all gaps, in a fixed order.
func Gaps() []Gap {
	var all []Gap
	for _, g := range gaps() {
		all = append(all, g.Gap)
	}
	return append(append(all, choiceGaps()...), runningGaps()...)
}

// choiceGaps only matter where there is a choice: among more nodes than kube-scheduler checks, between equal nodes, for
// a higher priority.
func choiceGaps() []Gap {
	return []Gap{
		{What: "percentageOfNodesToScore", Effect: "kube-scheduler checks only some of the nodes; the simulation checks all"},
		{What: "choice among equal nodes", Effect: "in kube-scheduler other scores decide (LeastAllocated, BalancedAllocation, ImageLocality, …) and then chance; here the first name wins"},
		{What: "preemption", Effect: "a pending pod could evict pods of lower priority"},
	}
}

// chosen returns the choiceGaps with a count above 0; counts are in their order.
func chosen(counts [3]int) []Gap {
	var all []Gap
	for i, g := range choiceGaps() {
		if g.Count = counts[i]; g.Count > 0 {
			all = append(all, g)
		}
	}
	return all
}

// runningGaps are decisions that need data of a running scheduler.
func runningGaps() []Gap {
	return []Gap{
		{What: "namespace caps", Effect: "the scheduler's arguments may keep a namespace from pinning, or cap what it pins"},
		{What: "liveness of the agents", Effect: "the scheduler pins nothing on a node whose agent did not renew its Lease"},
	}
}

// runningGaps omits the gap about Leases if they were read.
func (c *Cluster) runningGaps() []Gap {
	if c.agents.known() {
		return runningGaps()[:1]
	}
	return runningGaps()
}

// gaps are the gaps that a manifest shows by itself.
func gaps() []gap {
	return []gap{
		{Gap: Gap{What: "preferred node affinity", Effect: "only a score: another node that fits may win"}, pod: prefersNodes},
		{Gap: Gap{What: "inter-pod affinity and anti-affinity", Effect: "nodes that it excludes are available here"}, pod: hasPodAffinity},
		{Gap: Gap{What: "topology spread constraints", Effect: "nodes that they exclude are available here"}, pod: func(p *v1.Pod) bool {
			return len(p.Spec.TopologySpreadConstraints) > 0
		}},
		{Gap: Gap{What: "volumes", Effect: "claims may bind a pod to a node or a zone"}, pod: hasClaims},
		{Gap: Gap{What: "host ports", Effect: "two pods with the same port may share a node here"}, pod: hasHostPorts},
		{Gap: Gap{What: "extended resources and ephemeral storage", Effect: "every node has plenty here"}, pod: hasOtherResources},
		{Gap: Gap{What: "resource claims (DRA)", Effect: "the simulation ignores devices and their NUMA node"}, pod: func(p *v1.Pod) bool {
			return len(p.Spec.ResourceClaims) > 0
		}},
		{Gap: Gap{What: "PreferNoSchedule taints", Effect: "only a score: another node that fits may win"}, node: hasSoftTaint},
		{Gap: Gap{What: "priorityClassName without priority", Effect: "the pod has priority 0 here: write spec.priority"}, pod: func(p *v1.Pod) bool {
			return p.Spec.PriorityClassName != "" && p.Spec.Priority == nil
		}},
		{Gap: Gap{What: "runtime classes", Effect: "the simulation ignores their overhead and node selector unless the pod has them"}, pod: func(p *v1.Pod) bool {
			return p.Spec.RuntimeClassName != nil && len(p.Spec.Overhead) == 0
		}},
		{Gap: Gap{What: "scheduling groups", Effect: "pods are placed one by one, not all or none"}, pod: func(p *v1.Pod) bool {
			return p.Spec.SchedulingGroup != nil
		}},
		{Gap: Gap{What: "other schedulers", Effect: "the pod is placed as if it were Berth's"}, pod: otherScheduler},
	}
}

// used returns the gaps that the input shows.
func used(pods []Pod, nodes []v1.Node) []Gap {
	var all []Gap
	for _, g := range gaps() {
		for i := range pods {
			if g.pod != nil && g.pod(pods[i].Pod) {
				g.Count++
			}
		}
		for i := range nodes {
			if g.node != nil && g.node(&nodes[i]) {
				g.Count++
			}
		}
		if g.Count > 0 {
			all = append(all, g.Gap)
		}
	}
	return all
}

func prefersNodes(p *v1.Pod) bool {
	a := p.Spec.Affinity
	return a != nil && a.NodeAffinity != nil && len(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0
}

func hasPodAffinity(p *v1.Pod) bool {
	a := p.Spec.Affinity
	return a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil)
}

func hasClaims(p *v1.Pod) bool {
	for i := range p.Spec.Volumes {
		source := p.Spec.Volumes[i].VolumeSource
		if source.PersistentVolumeClaim != nil || source.Ephemeral != nil || source.CSI != nil {
			return true
		}
	}
	return false
}

func hasHostPorts(p *v1.Pod) bool {
	for i := range p.Spec.Containers {
		for _, port := range p.Spec.Containers[i].Ports {
			if port.HostPort != 0 || p.Spec.HostNetwork {
				return true
			}
		}
	}
	return false
}

func hasOtherResources(p *v1.Pod) bool {
	for i := range p.Spec.Containers {
		for name := range p.Spec.Containers[i].Resources.Requests {
			if name != v1.ResourceCPU && name != v1.ResourceMemory && kubepod.PageSize(name) == 0 {
				return true
			}
		}
	}
	return false
}

func hasSoftTaint(n *v1.Node) bool {
	for _, taint := range n.Spec.Taints {
		if taint.Effect == v1.TaintEffectPreferNoSchedule {
			return true
		}
	}
	return false
}

// otherScheduler reports whether the pod names a scheduler other than Berth's.
func otherScheduler(p *v1.Pod) bool {
	name := p.Spec.SchedulerName
	return name != "" && name != v1.DefaultSchedulerName && !strings.HasPrefix(name, "berth")
}
