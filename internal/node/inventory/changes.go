package inventory

import (
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/observed"
)

// What is the kind of a Change.
type What uint8

// The kinds. The comment of each names the fields of Change that are set in addition to What.
const (
	// PodsListed: the pods were replaced by those that Inventory.Pods returns.
	PodsListed What = iota
	// WorkloadsListed: the workloads of a host without Kubernetes were replaced; Listed has them as pods.
	WorkloadsListed
	// PodSeen: what is known of the pod ID changed.
	PodSeen
	// PodEarly: the runtime reported the pod ID before the cluster.
	PodEarly
	// PodEmpty: the runtime removed the last sandbox of the pod ID.
	PodEmpty
	// PodGone: the pod ID, which the cluster never reported, has ended.
	PodGone
	// ContainersListed: the containers were replaced by Containers.
	ContainersListed
	// ContainerSeen: Containers has one container that is new or changed.
	ContainerSeen
	// ContainerGone: the container ID is not there any more.
	ContainerGone
	// OwnerSeen: Obstacle, MemsOwner or Topology may have changed.
	OwnerSeen
	// ClusterSeen: the same, and AllocatableMilli.
	ClusterSeen
)

// Change is one change of what is known.
type Change struct {
	What What
	// ID is the UID of a pod, or the ID of a container.
	ID         string
	Containers []observed.Container
	Listed     []workload.Pod
	// AllocatableMilli is the node's allocatable CPU in thousandths.
	AllocatableMilli int64
}

// changes are the changes that nobody has read yet.
type changes []Change

// Changes returns the changes since the last call, in their order.
func (inv *Inventory) Changes() []Change {
	all := inv.changes
	inv.changes = nil
	return all
}

// add records a change.
func (cs *changes) add(c Change) { *cs = append(*cs, c) }

// saw records that a container is new or changed.
func (cs *changes) saw(c *container) {
	cs.add(Change{What: ContainerSeen, Containers: []observed.Container{c.Container}})
}
