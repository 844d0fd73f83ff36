package nri

import (
	"context"

	"github.com/containerd/nri/pkg/api"

	"github.com/berth-project/berth/internal/cpuset"
)

// Handler answers events. Handle is called by one goroutine, one event at a
// time, in the order in which they came. It should answer within
// milliseconds, from memory: the runtime waits, and with it all pods of the
// node. ctx ends when no call waits for the reply any more; events whose reply
// no call wants any more have a ctx of their own with the same limit. An error
// for Create, Start or Update makes the runtime refuse it, with the error's text.
type Handler interface {
	Handle(ctx context.Context, e Event) (Reply, error)
}

// Reply is what the runtime shall do. The zero Reply is nothing.
type Reply struct {
	// Adjust changes the container of a Create, before it is made.
	Adjust Settings
	// Updates change containers that exist already, at once: with Create before
	// the new container is made. A container that is gone is ignored, and that
	// an update failed is not reported.
	//
	// An update writes to a container's group all that the runtime has on
	// record of it, not only what is named here, and what was named once is on
	// record: a quota that was raised without the runtime goes back to its
	// limit, and CPUs that were set here once come back with every later
	// update, also one that the kubelet asks for, whatever was written to the
	// group meanwhile. So an Update for such a container has to be answered
	// with the CPUs that hold now.
	Updates []Change
}

// isZero says whether nothing is to be done.
func (r Reply) isZero() bool { return r.Adjust.isZero() && len(r.Updates) == 0 }

// Settings is what to set; what has the zero value is left as it is.
type Settings struct {
	// CPUs and Mems are the CPUs and memory nodes to run on. Empty sets cannot
	// be set.
	CPUs, Mems cpuset.Set
	// NoQuota takes the CFS quota away.
	NoQuota bool
}

// Change sets something in a container that exists.
type Change struct {
	ContainerID string
	Settings
}

// isZero says whether there is nothing to set.
func (s Settings) isZero() bool { return s == Settings{} }

// resources returns s in the terms of NRI, nil for nothing.
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

// adjustment returns the change of a container to be made, nil for none.
func (r Reply) adjustment() *api.ContainerAdjustment {
	resources := r.Adjust.resources()
	if resources == nil {
		return nil
	}
	return &api.ContainerAdjustment{Linux: &api.LinuxContainerAdjustment{Resources: resources}}
}

// updates returns the changes of other containers. A failure of one must not
// keep the runtime from doing the others.
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
