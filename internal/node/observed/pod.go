package observed

// Pod is a whole pod, or a whole workload of a host without Kubernetes.
type Pod struct {
	// Name is for messages. UID is empty for a workload.
	Name, UID string
	// Group is the group that has all of its containers, "" if it is not known.
	Group string
	// Here is true if the pod is not over, and the container runtime has made a part of it.
	Here bool
}
