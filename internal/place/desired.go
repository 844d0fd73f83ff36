package place

import "github.com/berth-project/berth/internal/cpuset"

// Desired says what one container should have. A container without one gets back what it
// had before Berth.
type Desired struct {
	ContainerID, PodUID, Container string
	// CPUs is never empty.
	CPUs cpuset.Set
	// Mems holds NUMA nodes; empty to leave them as they are.
	Mems cpuset.Set
	// Pinned says that the CPUs are exclusive to the pod.
	Pinned bool
	// NoQuota says that the container runs without CFS quota.
	NoQuota bool
	// Serves is the key of the pod for which Berth sets it: its own if Pinned, else the
	// pod for which others shrink to the shared pool.
	Serves string
	// Why is one sentence for status and explain.
	Why string
}

// DesiredPod says what the group of a pod should have.
type DesiredPod struct {
	PodUID string
	// NoQuota says that the pod's own group runs without CFS quota, because a
	// container in it does.
	NoQuota bool
	// Serves is the key of the pod.
	Serves string
	// Why is one sentence for status and explain.
	Why string
}

// Answer is what to set before a container starts, or is resized.
type Answer struct {
	// Own is what is desired for the container, one or none, or with Resize for the
	// pod's containers whose CPUs changed.
	Own []Desired
	// Others is what is desired for all containers of the node that must give up CPUs
	// first, as far as the Node knows. Those that may only gain are not among them.
	Others []Desired
}
