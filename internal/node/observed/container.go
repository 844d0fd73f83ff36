package observed

import "github.com/berth-project/berth/internal/value/cpuset"

// Phase is the stage in the life of a container.
type Phase uint8

// The phases. A container that the runtime removed is not observed any more.
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
	// Made is what an earlier agent answered when the container was made, nil if this agent answered. It is also nil if
	// the answer had no memory nodes, or the container has lost some of them or got an answer with other CPUs since.
	Made *Made
}

// Made has the CPUs and memory nodes of an answer about a container that was about to be made.
type Made struct {
	CPUs cpuset.Set `json:"cpus,omitzero"`
	Mems cpuset.Set `json:"mems,omitzero"`
}

// Sharing reports whether the journal has the container in the shared pool, or with offline work.
func (c *Container) Sharing() bool { return !c.Pinned && !c.Given.IsEmpty() }
