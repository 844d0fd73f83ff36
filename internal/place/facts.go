package place

import (
	"github.com/berth-project/berth/internal/alloc"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/grant"
	"github.com/berth-project/berth/internal/placement"
)

// Facts are the properties of the node as a whole.
type Facts struct {
	// Machine is the present state of the node: CPUs that are online, reserved, isolated. It is nil if unknown; then
	// nothing is pinned.
	Machine *alloc.Machine
	// Hash identifies the machine in placements.
	Hash   string
	Policy placement.NodePolicy
	// AllocatableMilli is the node's allocatable CPU in thousandths.
	AllocatableMilli int64
	// Pinnable says whether Berth may set CPU sets here. If not, the Node desires nothing, and Berth must neither write
	// nor restore CPU sets, which have another owner by now.
	Pinnable bool
	// Reason is why Pinnable is false, in a word or two.
	Reason string
	// MemsOwner is a sentence that names another program that sets memory nodes here, or "". If there is one, no
	// Desired has memory nodes.
	MemsOwner string
}

// memsOf returns the desired NUMA nodes of a container with this part, or none where another program sets them.
func (f *Facts) memsOf(one grant.Part) cpuset.Set {
	if f.MemsOwner != "" {
		return cpuset.Set{}
	}
	return one.Mems
}

// Phase is the stage in the life of a container.
type Phase uint8

// The phases. For a container that the runtime removed, the caller uses Node.Remove instead.
const (
	// Created is a container whose first process has not started.
	Created Phase = iota
	// Running is a container with processes.
	Running
	// Stopped is a container that ended: it needs no CPUs, but its pod keeps them for the next start.
	Stopped
)

// Container is one container as the runtime, or the kernel, reports it.
type Container struct {
	// ID is the runtime's ID.
	ID string
	// PodUID may name a pod that was never put, or be empty for a group that shrinks to the shared pool, for example a
	// group that is listed in sharedPool.
	PodUID string
	// Name is the container's name in its pod. A container that the pod does not list is ephemeral.
	Name string
	// Sandbox marks the container that holds the pod's namespaces.
	Sandbox bool
	Phase   Phase
	// CPUs are the CPUs that it may run on now, from the kernel where possible; empty if they were not read.
	CPUs cpuset.Set
	// Pinned says that Berth gave it exclusive CPUs: the journal has an entry of owner "place" for its group. With it,
	// the CPUs of a running container are valid even if the pod's annotation does not name them, or the pod is gone.
	Pinned bool
	// Given are the CPUs that Berth last set for it, from the journal; empty if it set none. They are exclusive if
	// Pinned, otherwise those of the shared pool or of offline work.
	Given cpuset.Set
	// Bound are the CPUs that it would have without Berth, for example because an administrator set them on its group;
	// in the shared pool it has no others. Empty if unknown. Bound has no effect while other pods have every CPU of it.
	Bound cpuset.Set
}
