package workload

import (
	"cmp"
	"slices"
	"time"
)

// UIDPrefix begins the UID of a Pod that is a workload of a host without Kubernetes. No pod of Kubernetes has such a
// UID.
const UIDPrefix = "workload/"

// Pod is a pod, as far as its CPUs depend on it. CPU quantities are in thousandths of a CPU, rounded up; memory is in
// bytes; 0 means unset.
type Pod struct {
	Namespace, Name, UID string
	Labels, Annotations  map[string]string
	// Containers are the app containers and the sidecars, which have their CPUs for the life of the pod.
	Containers []Container
	// Init are the ordinary init containers, which end before the app containers start.
	Init []Container
	// Resources are the pod's own, spec.resources, which its containers share.
	Resources
	// Scheduled is the CPU request of the whole pod, as kube-scheduler computes it for a node: init containers,
	// overhead and resizes included.
	Scheduled int64
	// Overhead is the part of Scheduled that belongs to no container.
	Overhead int64
	Besides
	// SystemPriority is true if the pod has a priority that Kubernetes reserves for its own parts, such as
	// system-node-critical.
	SystemPriority bool
	// DaemonSet is true if a DaemonSet controls the pod.
	DaemonSet bool
	// Claims is true if the pod has resource claims (DRA).
	Claims bool `json:",omitempty"`
	// Changed is true if the limits may have been resized after the CPUs of the pod were chosen. After a resize the old
	// limits are not stored anywhere, so that another change of the pod may set it too.
	Changed bool

	// Bound is when the pod was bound to its node, by PodScheduled, else its creation; zero is the earliest. If pods
	// claim the same CPUs, the earliest pod has them.
	Bound time.Time
	// Ended is true if all containers ended for good: the pod holds nothing.
	Ended bool
	// Provisional is true if only the container runtime has reported the pod so far. Its containers, their types and
	// their limits are guesses, and there may be more containers. A report of the API server or the kubelet replaces
	// all of it.
	Provisional bool `json:"-"`
	// Offline is true if the pod uses what online pods leave: its class is BE on this node.
	Offline bool `json:"-"`
	// Excluded is why the pod gets no exclusive CPUs on its node, however much room there is: for example, its runtime
	// handler starts a virtual machine.
	Excluded Exclusion `json:"-"`
}

// Besides is what a whole pod requests in addition to CPUs, computed like Pod.Scheduled.
type Besides struct {
	// ScheduledMemory is the memory request, ScheduledHuge the request of huge pages.
	ScheduledMemory int64
	ScheduledHuge   HugePages `json:",omitzero"`
	// Devices are devices of device plugins, sorted by resource.
	Devices []Device `json:",omitempty"`
}

// Add adds other, multiplied by times: -1 subtracts it.
func (b *Besides) Add(other Besides, times int64) {
	b.ScheduledMemory += other.ScheduledMemory * times
	b.ScheduledHuge.Add(other.ScheduledHuge, times)
	if len(other.Devices) > 0 {
		b.Devices = slices.Clone(b.Devices) // a copy of b may share them
	}
	for _, one := range other.Devices {
		at, found := slices.BinarySearchFunc(b.Devices, one.Resource, func(has Device, name string) int { return cmp.Compare(has.Resource, name) })
		if !found {
			b.Devices = slices.Insert(b.Devices, at, Device{Resource: one.Resource})
		}
		b.Devices[at].Count += one.Count * times
	}
}

// Device is a requested number of devices of a resource.
type Device struct {
	Resource string
	Count    int64
}

// Exclusion is why a pod gets no exclusive CPUs. The zero value excludes nothing.
type Exclusion struct {
	// Why is a sentence.
	Why string
	// KeepsOwn is true if the pod keeps its present CPUs until it ends, and gets no others.
	KeepsOwn bool
}

// Resources are the requests and limits of a container, or of a pod as a whole.
type Resources struct {
	CPURequest, CPULimit       int64
	MemoryRequest, MemoryLimit int64
	// Huge is the request of huge pages, which is also their limit.
	Huge HugePages `json:",omitzero"`
	// CPUHeld is the CPU limit in force while the kubelet does not actuate a resize to CPULimit; 0 where CPULimit is in
	// force.
	CPUHeld int64
	// CPUStands is the CPU limit that the kubelet reports, 0 if it equals CPULimit. For a container without a quota it
	// may be an old limit.
	CPUStands int64
	// CPUInForce is true if the kubelet reports CPULimit as actuated, and no resize is under way.
	CPUInForce bool `json:",omitempty"`
	// Resizing is true, for a whole pod, if the kubelet writes another CPU request or limit to its groups, or is about
	// to. The kubelet writes nothing for a deferred resize.
	Resizing bool
	// Presumed is true if only CPUStands, or a reported request, indicates Resizing. Resizing may then stay true after
	// the resize is over.
	Presumed bool `json:",omitempty"`
	// Infeasible is true, for a whole pod, if the kubelet will not actuate its resize.
	Infeasible bool
}

// LimitInForce returns the CPU limit in force.
func (r *Resources) LimitInForce() int64 { return cmp.Or(r.CPUHeld, r.CPULimit) }

// Held reports whether the pod has a resize that the kubelet does not actuate.
func (p *Pod) Held() bool {
	return p.CPUHeld != 0 || slices.ContainsFunc(p.Containers, func(c Container) bool { return c.CPUHeld != 0 })
}

// CarriedOut returns the pod as if the limits of its spec were in force.
func (p Pod) CarriedOut() Pod {
	p.CPUHeld, p.Containers = 0, slices.Clone(p.Containers)
	for i := range p.Containers {
		p.Containers[i].CPUHeld = 0
	}
	return p
}

// Memory returns the usable memory in bytes: the limit, else the request, 0 where neither is set.
func (r *Resources) Memory() int64 { return cmp.Or(r.MemoryLimit, r.MemoryRequest) }

// Container is one container of a Pod, in the same units.
type Container struct {
	// Name is unique in the pod.
	Name string
	// Sidecar marks an init container that runs as long as the pod.
	Sidecar bool
	// After is how many of Pod.Init end before a sidecar starts. It is not used for app containers, which start after
	// all of them.
	After int
	// Resources apply unless the pod has its own.
	Resources
}
