package place

import "github.com/berth-project/berth/internal/cpuset"

// Wish says what one container should have. A container without a wish gets back
// what it had before Berth.
type Wish struct {
	ContainerID, PodUID, Container string
	// CPUs is never empty.
	CPUs cpuset.Set
	// Mems holds NUMA nodes; empty to leave them as they are.
	Mems cpuset.Set
	// Pinned says that the CPUs are the pod's own, and no pod's else.
	Pinned bool
	// NoQuota says that the container runs without CFS quota.
	NoQuota bool
	// Serves is the key of the pod for which it is done: its own if Pinned, else
	// the pod that others make room for.
	Serves string
	// Why is one sentence for people.
	Why string
}

// PodWish says what the group of a pod should have.
type PodWish struct {
	PodUID string
	// NoQuota says that the pod's own group runs without CFS quota, because a
	// container in it does.
	NoQuota bool
	// Serves is the key of the pod.
	Serves string
	// Why is one sentence for people.
	Why string
}

// Answer is what is to be done before a container starts, or is resized.
type Answer struct {
	// Own are the wishes of the container, one or none, or with Resize those of
	// the pod's containers whose CPUs changed.
	Own []Wish
	// Others are the wishes of all containers of the node that must give up CPUs
	// first, as far as is known. Those that may only gain are not among them.
	Others []Wish
}
