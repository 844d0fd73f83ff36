package strategy

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/workload"
)

// SystemNamespace is the namespace of Kubernetes' own pods. Each node has some, and no tenant makes one.
const SystemNamespace = "kube-system"

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
	case bestEffort && s.bestEffortOffline && pod.Namespace != SystemNamespace && !pod.SystemPriority:
		return v1alpha1.QoSBE
	}
	return v1alpha1.QoSLS
}

// QOS returns what a class gets on this node, and where that is written, "" for nowhere. The
// first strategy that is for the node counts before that of the cluster, field by field, and
// the agent's file where no ConfigMap has the key.
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

// CPUPolicy returns by which means classes are kept apart on this node, "" where nothing was
// written of it, and where that is. It is asked for as the classes of QOS are.
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

// Threshold returns how much offline work may take on this node, and where that is written,
// "" for nowhere. The first strategy that is for the node counts before that of the cluster,
// field by field, and the agent's file where no ConfigMap has the key.
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

// offersOffline says whether an administrator enabled anything on this node that is
// for offline work: cores of its own, or its precedence.
func (s *Strategies) offersOffline() bool {
	threshold, _ := s.Threshold()
	qos, _ := s.QOS(v1alpha1.QoSBE)
	return isTrue(threshold.Enable) || qos.CPUQOS != nil && isTrue(qos.CPUQOS.Enable)
}

func isTrue(b *bool) bool { return b != nil && *b }

// Koordlet says whether a pod is the node agent of Koordinator or ACK. Only pods of a
// DaemonSet in their namespaces are: else a name could switch Berth off on a node.
func Koordlet(pod *workload.Pod) bool {
	if !pod.DaemonSet || pod.Namespace != "koordinator-system" && pod.Namespace != SystemNamespace {
		return false
	}
	return slices.ContainsFunc(pod.Containers, func(c workload.Container) bool {
		return c.Name == "koordlet" || c.Name == "ack-koordlet"
	})
}
