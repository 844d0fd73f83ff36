package nri

import (
	"context"

	"github.com/containerd/nri/pkg/api"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// Handler answers events. One goroutine calls Handle, with one event at a time, in the order of arrival. Handle should
// answer within milliseconds, from memory: the runtime and all pods of the node wait. ctx ends when no call waits for
// the reply any more. Events whose call has already ended get a new ctx with the same limit. An error for Create, Start
// or Update makes the runtime refuse it, with the error's text.
type Handler interface {
	Handle(ctx context.Context, e Event) (Reply, error)
}

// Reply tells the runtime what to change. The zero Reply changes nothing.
type Reply struct {
	// Adjust changes the container of a Create, before its creation.
	Adjust Settings
	// Updates change existing containers at once: for Create before the new container is created. A container that is
	// gone is ignored, and a failed update is not reported.
	//
	// The runtime records each setting that was named once. An update writes its whole record to a container's group,
	// not only the settings named here. A quota that was raised without the runtime returns to its limit. CPUs that
	// were set here once come back with every later update, including the kubelet's, over anything written to the group
	// since. So an Update for such a container must be answered with the present CPUs.
	Updates []Change
}

// isZero reports whether r changes nothing.
func (r Reply) isZero() bool { return r.Adjust.isZero() && len(r.Updates) == 0 }

// Settings are the settings to change; a zero value leaves a setting unchanged.
type Settings struct {
	// CPUs and Mems are the CPUs and memory nodes to run on. They cannot be set to an empty set.
	CPUs, Mems cpuset.Set
	// NoQuota removes the CFS quota.
	NoQuota bool
}

// Change changes settings of an existing container.
type Change struct {
	ContainerID string
	Settings
}

// isZero reports whether there is nothing to set.
func (s Settings) isZero() bool { return s == Settings{} }

// resources returns s in the types of NRI, nil for nothing.
func (s Settings) resources() *api.LinuxResources {
	if s.isZero() {
		return nil
	}
	cpu := &api.LinuxCPU{}
	if !s.CPUs.IsEmpty() {
		cpu.Cpus = s.CPUs.String()
	}
	if !s.Mems.IsEmpty() {
		cpu.Mems = s.Mems.String()
	}
	if s.NoQuota {
		cpu.Quota = api.Int64(int64(-1))
	}
	return &api.LinuxResources{Cpu: cpu}
}

// adjustment returns the change of a new container, nil for none.
func (r Reply) adjustment() *api.ContainerAdjustment {
	resources := r.Adjust.resources()
	if resources == nil {
		return nil
	}
	return &api.ContainerAdjustment{Linux: &api.LinuxContainerAdjustment{Resources: resources}}
}

// updates returns the changes of other containers. If a change fails, the runtime must still make the other changes.
func (r Reply) updates() []*api.ContainerUpdate {
	var list []*api.ContainerUpdate
	for _, change := range r.Updates {
		resources := change.resources()
		if resources == nil || change.ContainerID == "" {
			continue
		}
		list = append(list, &api.ContainerUpdate{
			ContainerId:   change.ContainerID,
			Linux:         &api.LinuxContainerUpdate{Resources: resources},
			IgnoreFailure: true,
		})
	}
	return list
}
