package place

import (
	"github.com/berth-project/berth/internal/alloc"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/grant"
	"github.com/berth-project/berth/internal/placement"
)

// Facts is what holds for the node as a whole.
type Facts struct {
	// Machine is the node as it is now: CPUs that are online, reserved, isolated.
	// Nil where it is not known; then nothing is pinned.
	Machine *alloc.Machine
	// Hash names the machine in placements.
	Hash   string
	Policy placement.NodePolicy
	// AllocatableMilli is the node's allocatable CPU in thousandths.
	AllocatableMilli int64
	// Pinnable says whether Berth may set CPU sets here. Where it may not, the Node
	// desires nothing, and Berth must neither write nor restore CPU sets, which have
	// another owner by now.
	Pinnable bool
	// Reason says in a word or two why Pinnable is false.
	Reason string
	// MemsOwner says in a sentence which other program sets memory nodes here, "" for
	// none. If there is one, no Desired names memory nodes.
	MemsOwner string
}

// memsOf returns the NUMA nodes that a container of this part is to have, none where they
// are not Berth's to set.
func (f *Facts) memsOf(one grant.Part) cpuset.Set {
	if f.MemsOwner != "" {
		return cpuset.Set{}
	}
	return one.Mems
}

// Phase is how far a container is.
type Phase uint8

// The phases. A container that the runtime removed is taken out with
// Node.Remove instead.
const (
	// Created is a container whose first process has not started.
	Created Phase = iota
	// Running is a container with processes.
	Running
	// Stopped is a container that ended: it needs no CPUs, but its pod keeps them
	// for the next start.
	Stopped
)

// Container is one container as the runtime, or the kernel, shows it.
type Container struct {
	// ID is the runtime's.
	ID string
	// PodUID may name a pod that was never put, or none at all: a group that shrinks to
	// the shared pool, such as those listed in sharedPool.
	PodUID string
	// Name is the container's in its pod. One that the pod does not list is an
	// ephemeral container.
	Name string
	// Sandbox marks the container that holds the pod's namespaces.
	Sandbox bool
	Phase   Phase
	// CPUs are those it may run on now, by the kernel's own account where
	// possible; empty where they were not read.
	CPUs cpuset.Set
	// Pinned says that Berth gave it exclusive CPUs: the journal has an entry of
	// owner "place" for its group. It makes the CPUs of a running container count
	// where its pod's annotation does not name them, or the pod is gone.
	Pinned bool
	// Given holds the CPUs that Berth set for it last, by the journal, empty where it set none:
	// exclusive ones where Pinned, else those of the shared pool or of offline work.
	Given cpuset.Set
	// Bound holds the CPUs that it would have without Berth, for example those that an
	// administrator gave its group: in the shared pool it has no others. Empty where that
	// is not known. A bound of which other pods have every CPU does not count.
	Bound cpuset.Set
}
