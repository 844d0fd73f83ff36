package workload

import (
	"cmp"
	"slices"
	"time"
)

// UIDPrefix begins the UID of a Pod that is a workload of a host without Kubernetes. No pod of
// Kubernetes has such a one.
const UIDPrefix = "workload/"

// Pod is a pod, as far as its CPUs depend on it. Quantities of CPU are in
// thousandths of a CPU and rounded up, memory is in bytes; 0 means that
// nothing was said.
type Pod struct {
	Namespace, Name, UID string
	Labels, Annotations  map[string]string
	// Containers are the app containers and the sidecars, which hold what they
	// get for the life of the pod.
	Containers []Container
	// Init are the ordinary init containers, which end before the others start.
	Init []Container
	// Resources are the pod's own, spec.resources, which its containers share.
	Resources
	// Scheduled is the CPU request of the pod as a whole, as kube-scheduler adds
	// it up for a node: init containers, overhead and resizes included.
	Scheduled int64
	// Overhead is the part of Scheduled that no container has.
	Overhead int64
	Besides
	// SystemPriority says that its priority is one of those that Kubernetes keeps for
	// its own parts, such as system-node-critical.
	SystemPriority bool
	// DaemonSet says that a DaemonSet controls it.
	DaemonSet bool
	// Claims says that it has claims (DRA).
	Claims bool `json:",omitempty"`
	// Changed says that the limits may have been resized after the CPUs of the pod
	// were chosen. Whether they were is not known once a resize is over, since
	// nothing keeps the old ones: a pod that was changed in another way may say
	// so too.
	Changed bool

	// Bound is when the pod came to its node, by PodScheduled, else its creation; zero
	// is first of all. Of pods that claim the same CPUs, the earlier one has them.
	Bound time.Time
	// Ended says that all containers ended for good: the pod holds nothing.
	Ended bool
	// Provisional says that only the container runtime has reported the pod so far: its
	// containers, what they are and their limits are guessed, and there may be more of
	// them. What the API server or the kubelet reports replaces all of it.
	Provisional bool `json:"-"`
	// Offline says that it takes what online pods leave: its class is BE on this node.
	Offline bool `json:"-"`
	// Excluded says why the pod gets no exclusive CPUs on its node whatever room there
	// is, for example because its runtime handler starts a virtual machine.
	Excluded Exclusion `json:"-"`
}

// Besides is what a pod as a whole requests besides CPUs, added up like Pod.Scheduled.
type Besides struct {
	// ScheduledMemory is the memory request, and ScheduledHuge that of huge pages.
	ScheduledMemory int64
	ScheduledHuge   HugePages `json:",omitzero"`
	// Devices are those of device plugins, by resource in ascending order.
	Devices []Device `json:",omitempty"`
}

// Add adds all of other, times of it: -1 takes it away.
func (b *Besides) Add(other Besides, times int64) {
	b.ScheduledMemory += other.ScheduledMemory * times
	b.ScheduledHuge.Add(other.ScheduledHuge, times)
	if len(other.Devices) > 0 {
		b.Devices = slices.Clone(b.Devices) // a copy of b may have them
	}
	for _, one := range other.Devices {
		at, found := slices.BinarySearchFunc(b.Devices, one.Resource, func(has Device, name string) int { return cmp.Compare(has.Resource, name) })
		if !found {
			b.Devices = slices.Insert(b.Devices, at, Device{Resource: one.Resource})
		}
		b.Devices[at].Count += one.Count * times
	}
}

// Device is how many devices of a resource are asked for.
type Device struct {
	Resource string
	Count    int64
}

// Exclusion is why a pod gets no exclusive CPUs. The zero value excludes nothing.
type Exclusion struct {
	// Why is a sentence.
	Why string
	// KeepsOwn says that the pod keeps the CPUs that it has until it ends: it gets no
	// others.
	KeepsOwn bool
}

// Resources are the requests and limits of a container, or of a pod as a whole.
type Resources struct {
	CPURequest, CPULimit       int64
	MemoryRequest, MemoryLimit int64
	// Huge is what is requested in huge pages, which is their limit too.
	Huge HugePages `json:",omitzero"`
	// CPUHeld is the CPU limit that counts while the kubelet does not carry a resize to
	// CPULimit out; 0 where CPULimit does.
	CPUHeld int64
	// CPUStands is the CPU limit that the kubelet reports where that is another than
	// CPULimit, 0 where it is not. Of a container without a quota it may be an old one.
	CPUStands int64
	// CPUInForce says that the kubelet reports CPULimit for what runs, and no resize under way.
	CPUInForce bool `json:",omitempty"`
	// Resizing says, of a pod as a whole, that the kubelet writes another CPU request or limit
	// to its groups, or is about to. Of a resize that it puts off it writes nothing.
	Resizing bool
	// Presumed says that nothing but CPUStands, or what the kubelet reports of a request, shows
	// Resizing, which may go on when the resize is over.
	Presumed bool `json:",omitempty"`
	// Infeasible says, of a pod as a whole, that the kubelet will not carry its resize out.
	Infeasible bool
}

// LimitInForce is the CPU limit that counts now.
func (r *Resources) LimitInForce() int64 { return cmp.Or(r.CPUHeld, r.CPULimit) }

// Held says whether the kubelet has a resize of the pod that it does not carry out.
func (p *Pod) Held() bool {
	return p.CPUHeld != 0 || slices.ContainsFunc(p.Containers, func(c Container) bool { return c.CPUHeld != 0 })
}

// CarriedOut returns the pod with the limits that it asks for in force.
func (p Pod) CarriedOut() Pod {
	p.CPUHeld, p.Containers = 0, slices.Clone(p.Containers)
	for i := range p.Containers {
		p.Containers[i].CPUHeld = 0
	}
	return p
}

// Memory is what may be used in bytes: the limit, else the request, 0 where neither is set.
func (r *Resources) Memory() int64 { return cmp.Or(r.MemoryLimit, r.MemoryRequest) }

// Container is one container of a Pod, in the same units.
type Container struct {
	// Name is unique in the pod.
	Name string
	// Sidecar marks an init container that runs as long as the pod.
	Sidecar bool
	// After is how many of Pod.Init end before a sidecar starts; the app
	// containers start after all of them, whatever it says.
	After int
	// Resources count while nothing of the pod says otherwise.
	Resources
}
