package strategy

import (
	"slices"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/workload"
)

// ClassOf returns the class by which strategies count a pod with these labels:
// without the label, or with one that does not exist, BE for the Kubernetes class
// BestEffort and LS for all others.
func ClassOf(labels map[string]string, bestEffort bool) v1alpha1.QoSClass {
	class := v1alpha1.QoSClass(labels[v1alpha1.LabelQoSClass])
	switch {
	case slices.Contains(v1alpha1.QoSClasses(), class):
		return class
	case bestEffort:
		return v1alpha1.QoSBE
	}
	return v1alpha1.QoSLS
}

// Koordlet says whether a pod is the node agent of Koordinator or ACK. Only pods
// in their namespaces are: else a tenant could switch Berth off on a node by a
// name.
func Koordlet(pod *workload.Pod) bool {
	if pod.Namespace != "koordinator-system" && pod.Namespace != "kube-system" {
		return false
	}
	return slices.ContainsFunc(pod.Containers, func(c workload.Container) bool {
		return c.Name == "koordlet" || c.Name == "ack-koordlet"
	})
}
