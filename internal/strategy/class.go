package strategy

import (
	"cmp"
	"slices"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/workload"
)

// systemNamespace is the namespace of Kubernetes' own pods.
const systemNamespace = "kube-system"

// Class returns the class by which a pod counts on this node. bestEffort is the
// Kubernetes class BestEffort. Without the label, or with one that does not exist, a
// pod counts as LS. Of these the BestEffort pods count as BE where an administrator
// enabled resource-threshold-config or beClass.cpuQOS for the node, which is their
// opt-in; pods of kube-system and pods with system priority never do.
func (s *Strategies) Class(pod *workload.Pod, bestEffort bool) v1alpha1.QoSClass {
	class := v1alpha1.QoSClass(pod.Labels[v1alpha1.LabelQoSClass])
	switch {
	case slices.Contains(v1alpha1.QoSClasses(), class):
		return class
	case bestEffort && s.bestEffortOffline && pod.Namespace != systemNamespace && !pod.SystemPriority:
		return v1alpha1.QoSBE
	}
	return v1alpha1.QoSLS
}

// offersOffline says whether an administrator enabled anything on this node that is
// for offline work: cores of its own, or its precedence.
func (s *Strategies) offersOffline(node map[string]string) bool {
	threshold := s.threshold.value.ClusterStrategy.Enable
	if i := matching(s.threshold.value.NodeStrategies, node); i >= 0 {
		threshold = cmp.Or(s.threshold.value.NodeStrategies[i].Enable, threshold)
	}
	precedence := enabled(s.qos.value.ClusterStrategy)
	if i := matching(s.qos.value.NodeStrategies, node); i >= 0 {
		precedence = cmp.Or(enabled(s.qos.value.NodeStrategies[i].ResourceQOS), precedence)
	}
	return isTrue(threshold) || isTrue(precedence)
}

// enabled is beClass.cpuQOS.enable, nil where nothing stands there.
func enabled(q v1alpha1.ResourceQOS) *bool {
	if q.BEClass == nil || q.BEClass.CPUQOS == nil {
		return nil
	}
	return q.BEClass.CPUQOS.Enable
}

func isTrue(b *bool) bool { return b != nil && *b }

// Koordlet says whether a pod is the node agent of Koordinator or ACK. Only pods of a
// DaemonSet in their namespaces are: else a name could switch Berth off on a node.
func Koordlet(pod *workload.Pod) bool {
	if !pod.DaemonSet || pod.Namespace != "koordinator-system" && pod.Namespace != systemNamespace {
		return false
	}
	return slices.ContainsFunc(pod.Containers, func(c workload.Container) bool {
		return c.Name == "koordlet" || c.Name == "ack-koordlet"
	})
}
