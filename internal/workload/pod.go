package workload

import (
	"cmp"
	"time"
)

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
	// ScheduledMemory is the memory request of the pod as a whole, added up like
	// Scheduled.
	ScheduledMemory int64
	// HugePages says that the pod asks for huge pages of some size.
	HugePages bool
	// SystemPriority says that its priority is one of those that Kubernetes keeps for
	// its own parts, such as system-node-critical.
	SystemPriority bool
	// DaemonSet says that a DaemonSet controls it.
	DaemonSet bool
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
	// CPUHeld is the CPU limit that counts while the kubelet does not carry a resize to
	// CPULimit out; 0 where CPULimit does.
	CPUHeld int64
	// Resizing says, of a pod as a whole, that the kubelet writes another CPU request or limit
	// to its groups, or is about to. Of a resize that it puts off it writes nothing.
	Resizing bool
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
