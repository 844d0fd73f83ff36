package schedule

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// needs is what a plain pod needs from a node in addition to exclusive CPUs: what the plugins NodeResourcesFit,
// TaintToleration, NodeUnschedulable and NodeAffinity compare.
type needs struct {
	milli, memory, ephemeral int64
	hugePages                map[v1.ResourceName]int64
	tolerations              []v1.Toleration
	selector                 map[string]string
}

// needsOf returns the needs of a pod with these requests. plain is false if kube-scheduler's own plugins check more: the
// pods of other nodes, volumes, ports, or devices.
func needsOf(pod *v1.Pod, requests v1.ResourceList) (n needs, plain bool) {
	spec := &pod.Spec
	if spec.Affinity != nil || len(spec.TopologySpreadConstraints)+len(spec.ResourceClaims) > 0 ||
		pod.Status.NominatedNodeName != "" {
		return needs{}, false
	}
	if slices.ContainsFunc(spec.Volumes, bindsToNodes) || slices.ContainsFunc(spec.Containers, hasHostPort) ||
		slices.ContainsFunc(spec.InitContainers, hasHostPort) {
		return needs{}, false
	}
	n = needs{tolerations: spec.Tolerations, selector: spec.NodeSelector}
	for name, amount := range requests {
		switch {
		case name == v1.ResourceCPU:
			n.milli = amount.MilliValue()
		case name == v1.ResourceMemory:
			n.memory = amount.Value()
		case name == v1.ResourceEphemeralStorage:
			n.ephemeral = amount.Value()
		case strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix):
			if n.hugePages == nil {
				n.hugePages = map[v1.ResourceName]int64{}
			}
			n.hugePages[name] = amount.Value()
		case !amount.IsZero():
			return needs{}, false // a device, of a plugin or by a claim made for it
		}
	}
	return n, true
}

// bindsToNodes reports whether a volume may be available on some nodes only, or on a limited number at a time.
func bindsToNodes(v v1.Volume) bool {
	return v.ConfigMap == nil && v.Secret == nil && v.DownwardAPI == nil && v.Projected == nil && v.EmptyDir == nil && v.HostPath == nil
}

func hasHostPort(c v1.Container) bool {
	return slices.ContainsFunc(c.Ports, func(p v1.ContainerPort) bool { return p.HostPort > 0 })
}

// verdict is a node's answer to the needs of a pod.
type verdict uint8

const (
	refuses verdict = iota
	admits
	// avoids is a node that admits the pod but has a taint that makes other nodes better.
	avoids
)

// ask compares a node of the snapshot with the pod's needs.
func (n *needs) ask(info fwk.NodeInfo) verdict {
	node := info.Node()
	for key, value := range n.selector {
		if has, found := node.Labels[key]; !found || has != value {
			return refuses
		}
	}
	if !n.fit(info) || node.Spec.Unschedulable && !n.tolerate(&v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}) {
		return refuses
	}
	says := admits
	for i := range node.Spec.Taints {
		switch taint := &node.Spec.Taints[i]; {
		case n.tolerate(taint):
		case taint.Effect == v1.TaintEffectPreferNoSchedule:
			says = avoids
		default:
			return refuses
		}
	}
	return says
}

// tolerate reports whether the pod tolerates a taint. Numeric operators, behind a feature gate, count as no toleration.
func (n *needs) tolerate(taint *v1.Taint) bool {
	return corev1helpers.TolerationsTolerateTaint(klog.Background(), n.tolerations, taint, false)
}

// fit reports whether a node has room for the pod's requests, and for one more pod.
func (n *needs) fit(info fwk.NodeInfo) bool {
	has, used := info.GetAllocatable(), info.GetRequested()
	if len(info.GetPods()) >= has.GetAllowedPodNumber() ||
		n.milli > 0 && n.milli > has.GetMilliCPU()-used.GetMilliCPU() ||
		n.memory > 0 && n.memory > has.GetMemory()-used.GetMemory() ||
		n.ephemeral > 0 && n.ephemeral > has.GetEphemeralStorage()-used.GetEphemeralStorage() {
		return false
	}
	for name, want := range n.hugePages {
		if want > has.GetScalarResources()[name]-used.GetScalarResources()[name] {
			return false
		}
	}
	return true
}

// othersCare reports whether other objects decide about the pod's nodes. These are pods with anti-affinity, the Service
// or controller by which the cluster spreads pods without constraints, and the scheduler's extenders.
func (s shortlist) othersCare() bool {
	apart, err := s.plugin.handle.SnapshotSharedLister().NodeInfos().HavePodsWithRequiredAntiAffinityList()
	return err != nil || len(apart) > 0 || len(s.plugin.handle.Extenders()) > 0 || s.plugin.core.spreads(s.cy.pod)
}

// spreads reports whether the cluster's default constraints of PodTopologySpread, if any, apply to the pod. Like that
// plugin, it looks for the pod's controller and Services.
func (c *core) spreads(pod *v1.Pod) bool {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		switch owner.Kind {
		case "ReplicationController", "ReplicaSet", "StatefulSet":
			return true
		}
	}
	if len(pod.Labels) == 0 {
		return false
	}
	services, err := c.services.Services(pod.Namespace).List(labels.Everything())
	return err != nil || slices.ContainsFunc(services, func(s *v1.Service) bool {
		return len(s.Spec.Selector) > 0 && labels.SelectorFromValidatedSet(s.Spec.Selector).Matches(labels.Set(pod.Labels))
	})
}
