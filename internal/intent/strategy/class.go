package strategy

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/intent/workload"
)

// SystemNamespace is the namespace of Kubernetes' own pods. Each node has some, and tenants cannot create it.
const SystemNamespace = "kube-system"

// Class returns the QoS class of a pod on this node. bestEffort is the Kubernetes class BestEffort. Without the label,
// or with an unknown value of it, a pod is LS. A BestEffort pod is then BE where an administrator enabled
// resource-threshold-config or beClass.cpuQOS for the node, as the opt-in; pods of kube-system and pods with system
// priority never are.
func (s *Strategies) Class(pod *workload.Pod, bestEffort bool) v1alpha1.QoSClass {
	class := v1alpha1.QoSClass(pod.Labels[v1alpha1.LabelQoSClass])
	switch {
	case slices.Contains(v1alpha1.QoSClasses(), class):
		return class
	case bestEffort && s.bestEffortOffline && pod.Namespace != SystemNamespace && !pod.SystemPriority:
		return v1alpha1.QoSBE
	}
	return v1alpha1.QoSLS
}

// QOS returns the settings of a class on this node, and their source, "" for none. The first strategy for the node
// precedes the cluster strategy, field by field. The agent's file applies where no ConfigMap has the key.
func (s *Strategies) QOS(class v1alpha1.QoSClass) (v1alpha1.ClassQOS, string) {
	cluster, field := s.qos.value.ClusterStrategy.Of(class)
	if s.qos.from == "" {
		if cluster, field = s.admin.QOS.Of(class); cluster == nil {
			return v1alpha1.ClassQOS{}, ""
		}
		return *cluster, "resource-qos-config.clusterStrategy." + field + " of " + s.admin.File
	}
	var found v1alpha1.ClassQOS
	source := ""
	if i := s.qosNode; i >= 0 {
		if node, _ := s.qos.value.NodeStrategies[i].Of(class); node != nil {
			found, source = *node, "nodeStrategies["+strconv.Itoa(i)+"]."+field
		}
	}
	if cluster != nil {
		found, source = found.Inherit(*cluster), cmp.Or(source, "clusterStrategy."+field)
	}
	if source == "" {
		return found, ""
	}
	return found, s.qos.source(KeyQOS + " " + source)
}

// CPUPolicy returns the means that isolates classes on this node, "" where nothing sets it, and its source. The order
// of precedence is that of QOS.
func (s *Strategies) CPUPolicy() (policy, source string) {
	if s.qos.from == "" {
		if policy = s.admin.QOS.Policies.CPU(); policy == "" {
			return "", ""
		}
		return policy, KeyQOS + ".clusterStrategy.policies.cpuPolicy of " + s.admin.File
	}
	if i := s.qosNode; i >= 0 {
		policy, source = s.qos.value.NodeStrategies[i].Policies.CPU(), "nodeStrategies["+strconv.Itoa(i)+"]"
	}
	if policy == "" {
		policy, source = s.qos.value.ClusterStrategy.Policies.CPU(), "clusterStrategy"
	}
	if policy == "" {
		return "", ""
	}
	return policy, s.qos.source(KeyQOS + " " + source + ".policies.cpuPolicy")
}

// Threshold returns how much offline work may use on this node, and the source, "" for none. The first strategy for the
// node precedes the cluster strategy, field by field. The agent's file applies where no ConfigMap has the key.
func (s *Strategies) Threshold() (v1alpha1.ResourceThreshold, string) {
	if s.threshold.from == "" {
		if s.admin.Threshold == (v1alpha1.ResourceThreshold{}) {
			return s.admin.Threshold, ""
		}
		return s.admin.Threshold, KeyThreshold + ".clusterStrategy of " + s.admin.File
	}
	found, source := s.threshold.value.ClusterStrategy, "clusterStrategy"
	if i := s.thresholdNode; i >= 0 {
		found = s.threshold.value.NodeStrategies[i].Inherit(found)
		source = "nodeStrategies[" + strconv.Itoa(i) + "]"
	}
	return found, s.threshold.source(KeyThreshold + " " + source)
}

// offersOffline reports whether an administrator enabled a feature for offline work on this node: cores of its own, or
// its CPU precedence.
func (s *Strategies) offersOffline() bool {
	threshold, _ := s.Threshold()
	qos, _ := s.QOS(v1alpha1.QoSBE)
	return isTrue(threshold.Enable) || qos.CPUQOS != nil && isTrue(qos.CPUQOS.Enable)
}

func isTrue(b *bool) bool { return b != nil && *b }

// Koordlet reports whether a pod is the node agent of Koordinator or ACK. Only a pod of a DaemonSet in their namespaces
// is: otherwise a name could switch Berth off on a node.
func Koordlet(pod *workload.Pod) bool {
	if !pod.DaemonSet || pod.Namespace != "koordinator-system" && pod.Namespace != SystemNamespace {
		return false
	}
	return slices.ContainsFunc(pod.Containers, func(c workload.Container) bool {
		return c.Name == "koordlet" || c.Name == "ack-koordlet"
	})
}
