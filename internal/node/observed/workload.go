package observed

import "github.com/berth-project/berth/api/v1alpha1"

// Workload is a running container of a known pod, or a workload of a host without Kubernetes.
type Workload struct {
	// PodUID names the pod of an event or an annotation.
	PodUID string
	// Name is namespace/pod/container, or the name of the workload. Pod and Container are its parts; Pod is empty for a
	// workload.
	Name, Pod, Container string
	// ID changes at a restart of the container, where a runtime says so.
	ID, Group string
	// PodGroup is the group of the pod, empty for a workload or while unknown. Resizing means that the kubelet writes
	// to it: see workload.Pod.
	PodGroup string
	Resizing bool
	// Labels and Annotations are those of the pod, or of the workload.
	Labels, Annotations map[string]string
	// Class is its class on this node. QOS is what that class gets, with the node's strategy before the cluster's,
	// QOSSource where it is written.
	Class     v1alpha1.QoSClass
	QOS       v1alpha1.ClassQOS
	QOSSource string
	// Bound means that its CPUs are its own, no matter who set them: it is not in the shared pool.
	Bound bool
}

// Whole returns the group of its whole pod, empty while unknown, and for a workload its own group.
func (w *Workload) Whole() string {
	if w.Pod == "" {
		return w.Group
	}
	return w.PodGroup
}

// PodOf returns the UID of the pod that a group belongs to, or a container of the pod, "" for other groups.
func PodOf(all []Workload, group string) string {
	for i := range all {
		if all[i].Group == group || all[i].PodGroup == group {
			return all[i].PodUID
		}
	}
	return ""
}

// SameList reports whether two lists of workloads are the same list, so that nothing changed.
func SameList(a, b []Workload) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
