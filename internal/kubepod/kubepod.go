package kubepod

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/workload"
)

// Of returns the pod as a plain value.
func Of(p *v1.Pod) workload.Pod {
	scheduled := Requests(p)
	out := workload.Pod{
		Namespace:   p.Namespace,
		Name:        p.Name,
		UID:         string(p.UID),
		Labels:      p.Labels,
		Annotations: p.Annotations,
		Scheduled:   cpu(scheduled),
		Overhead:    cpu(p.Spec.Overhead),
		Changed:     changed(p),

		Besides:        besides(scheduled),
		SystemPriority: systemPriority(p),
		DaemonSet:      ofDaemonSet(p),
		Claims:         len(p.Spec.ResourceClaims) > 0,
	}
	out.Resizing, out.Presumed = resizing(p)
	if own := p.Spec.Resources; own != nil {
		out.CPURequest, out.CPULimit = cpu(requestsOfPod(p)), cpu(own.Limits)
		out.MemoryRequest, out.MemoryLimit = memory(own.Requests), memory(own.Limits)
		out.Huge = HugePages(own.Requests)
	}
	r := reader{pod: p, infeasible: resource.IsPodResizeInfeasible(p), held: isHeld(p), resizing: out.Resizing}
	out.Infeasible = r.infeasible
	if p.Status.Resources != nil {
		out.CPUHeld, out.CPUStands = r.standing(out.CPULimit, p.Status.Resources.Limits)
	}
	for i := range p.Spec.Containers {
		out.Containers = append(out.Containers, r.container(&p.Spec.Containers[i], p.Status.ContainerStatuses))
	}
	for i := range p.Spec.InitContainers {
		if isSidecar(&p.Spec.InitContainers[i]) {
			c := r.container(&p.Spec.InitContainers[i], p.Status.InitContainerStatuses)
			c.Sidecar, c.After = true, len(out.Init)
			out.Containers = append(out.Containers, c)
		} else {
			// An init container that runs once is never resized.
			out.Init = append(out.Init, r.container(&p.Spec.InitContainers[i], nil))
		}
	}
	return out
}

// OptsIntoMoves says whether the pod opted in to other CPUs of its node while it runs. Whether
// it can have them says workload.Pinning.
func OptsIntoMoves(p *v1.Pod) bool {
	return p.Annotations[v1alpha1.AnnotationMovable] == v1alpha1.Movable
}

// systemPriority says whether the pod has one of the priorities that Kubernetes keeps
// for its own parts: classes whose names begin with system-, and all above what
// others may use. The name alone is there for static pods.
func systemPriority(p *v1.Pod) bool {
	const highestOfUsers = 1_000_000_000 // HighestUserDefinablePriority of pkg/apis/scheduling
	return strings.HasPrefix(p.Spec.PriorityClassName, "system-") || p.Spec.Priority != nil && *p.Spec.Priority > highestOfUsers
}

// ofDaemonSet says whether a DaemonSet controls the pod, of Kubernetes or of a group that
// has its own, such as OpenKruise.
func ofDaemonSet(p *v1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(p)
	return owner != nil && owner.Kind == "DaemonSet"
}

// changed says whether the pod's spec is another one than at its creation, apart
// from being deleted. A resize that is over leaves no other trace: the status
// then has the new values too.
func changed(p *v1.Pod) bool {
	generation := p.Generation
	if p.DeletionTimestamp != nil {
		generation--
	}
	return generation > 1
}

// Scheduled returns the CPU request of the pod in thousandths, as kube-scheduler
// adds it to a node with its default feature gates: init containers, overhead,
// pod-level requests and resizes under way included.
func Scheduled(p *v1.Pod) int64 { return cpu(Requests(p)) }

// ScheduledAll returns it with the same of memory and of huge pages, in bytes, and of devices.
func ScheduledAll(p *v1.Pod) (milli int64, all workload.Besides) {
	requests := Requests(p)
	return cpu(requests), besides(requests)
}

func besides(list v1.ResourceList) workload.Besides {
	return workload.Besides{ScheduledMemory: memory(list), ScheduledHuge: HugePages(list), Devices: devices(list)}
}

// Requests returns all of it that the pod requests.
func Requests(p *v1.Pod) v1.ResourceList {
	return resource.PodRequests(p, resource.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
}

// Complete says whether all containers of the pod ended for good: such a pod
// holds no CPU any more. One that is only being deleted still does.
func Complete(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
}

// MayPin says whether the pod can have anything to do with CPUs of its own. It
// allocates nothing and is false for ordinary pods, so that the rest of this
// package need not be asked about them. What runs in a virtual machine is ordinary,
// whatever its keys say: no agent pins it.
func MayPin(p *v1.Pod) bool {
	return workload.MayPin(p.Labels, p.Annotations) && !InVM(p)
}

// InVM says whether the pod runs in a virtual machine, by the name of its class: what
// the class says itself is not known here.
func InVM(p *v1.Pod) bool {
	return p.Spec.RuntimeClassName != nil && workload.StartsVM(*p.Spec.RuntimeClassName)
}

func isSidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// reader reads the containers of one pod.
type reader struct {
	pod        *v1.Pod
	infeasible bool
	// held is what isHeld says of the pod.
	held bool
	// resizing is what resizing says of it.
	resizing bool
}

// isHeld says whether the kubelet has a resize that it does not carry out: deferred,
// infeasible, or tried without success.
func isHeld(p *v1.Pod) bool {
	return resource.IsPodResizeInfeasible(p) || resource.IsPodResizeDeferred(p) ||
		slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
			return c.Type == v1.PodResizeInProgress && c.Reason == v1.PodReasonError
		})
}

// resizing says whether the kubelet carries a resize of CPUs out, or is about to, and whether
// that is presumed only. It tries one that failed again. Where the kubelet says which
// specification it has seen that counts: what it reports of a limit comes from the quota, and
// without one is that of before the resize for as long as the container runs.
func resizing(p *v1.Pod) (is, presumed bool) {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodResizeInProgress {
			return true, false
		}
	}
	switch {
	case isHeld(p):
		return false, false
	case p.Status.ObservedGeneration > 0:
		return p.Status.ObservedGeneration < p.Generation, false
	}
	is = differs(p.Spec.Containers, p.Status.ContainerStatuses) || differs(p.Spec.InitContainers, p.Status.InitContainerStatuses)
	return is, is
}

// differs says whether containers that run have other CPU requests or limits than the spec's.
func differs(containers []v1.Container, statuses []v1.ContainerStatus) bool {
	for i := range statuses {
		status := &statuses[i]
		at := slices.IndexFunc(containers, func(c v1.Container) bool { return c.Name == status.Name })
		if at < 0 || status.Resources == nil || status.State.Running == nil {
			continue
		}
		spec := &containers[at].Resources
		if cpu(spec.Requests) != cpu(status.Resources.Requests) || cpu(spec.Limits) != cpu(status.Resources.Limits) {
			return true
		}
	}
	return false
}

// standing returns the limit in force where that is another than the spec's, else 0: first
// where it is because the kubelet holds the spec's, then in any case.
func (r *reader) standing(limit int64, inForce v1.ResourceList) (held, stands int64) {
	stands = cpu(inForce)
	switch {
	case stands == limit:
		return 0, 0
	case r.held:
		return stands, stands
	}
	return 0, stands
}

func (r *reader) container(c *v1.Container, statuses []v1.ContainerStatus) workload.Container {
	out := workload.Container{Name: c.Name, Resources: workload.Resources{
		CPURequest:    cpu(c.Resources.Requests),
		CPULimit:      cpu(c.Resources.Limits),
		MemoryRequest: memory(c.Resources.Requests),
		MemoryLimit:   memory(c.Resources.Limits),
		Huge:          cmp.Or(HugePages(c.Resources.Requests), HugePages(c.Resources.Limits)),
	}}
	for i := range statuses {
		if status := &statuses[i]; status.Name == c.Name && status.Resources != nil {
			out.CPURequest = r.effective(out.CPURequest, cpu(status.Resources.Requests), cpu(status.AllocatedResources))
			out.MemoryRequest = r.effective(out.MemoryRequest, memory(status.Resources.Requests), memory(status.AllocatedResources))
			out.CPUHeld, out.CPUStands = r.standing(out.CPULimit, status.Resources.Limits)
			out.CPUInForce = !r.resizing && !r.held && out.CPUStands == 0 && out.CPULimit > 0
			out.MemoryLimit = max(out.MemoryLimit, memory(status.Resources.Limits))
		}
	}
	return out
}

// effective returns what counts of a request while a resize may be under way.
func (r *reader) effective(wished, running, granted int64) int64 {
	if r.infeasible {
		return max(running, granted)
	}
	return max(wished, running, granted)
}

// requestsOfPod returns the pod-level requests that count, resizes included.
func requestsOfPod(p *v1.Pod) v1.ResourceList {
	if !resource.IsPodLevelRequestsSet(p) {
		return nil
	}
	return resource.PodRequests(p, resource.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
		ExcludeOverhead:             true,
		SkipContainerLevelResources: true,
	})
}

// Bounds far above every machine and far below what overflows in a sum.
const (
	mostCPUs  = 1 << 30
	mostBytes = 1 << 50
	// mostDevices of a resource are no more than that.
	mostDevices = 1 << 20
	milli       = 1000
)

// cpu returns thousandths. A quantity is compared before it is read: one that
// does not fit is read as anything at all.
func cpu(list v1.ResourceList) int64 {
	q, found := list[v1.ResourceCPU]
	switch {
	case !found:
		return 0
	case q.CmpInt64(mostCPUs) >= 0:
		return mostCPUs * milli
	}
	return max(q.MilliValue(), 0)
}

func memory(list v1.ResourceList) int64 {
	q, found := list[v1.ResourceMemory]
	switch {
	case !found:
		return 0
	case q.CmpInt64(mostBytes) >= 0:
		return mostBytes
	}
	return max(q.Value(), 0)
}

// HugePages returns what a list has in huge pages of all sizes.
func HugePages(list v1.ResourceList) workload.HugePages {
	var all workload.HugePages
	for name, amount := range list {
		switch size := PageSize(name); {
		case size == 0:
		case amount.CmpInt64(mostBytes) >= 0:
			all.Put(size, mostBytes)
		default:
			all.Put(size, max(amount.Value(), 0))
		}
	}
	return all
}

// devices returns what a list has of device plugins, or of other owners of extended
// resources, in ascending order.
func devices(list v1.ResourceList) []workload.Device {
	var all []workload.Device
	for name, amount := range list {
		if group, _, found := strings.Cut(string(name), "/"); !found || strings.HasSuffix(group, "kubernetes.io") || amount.Sign() <= 0 {
			continue
		}
		count := int64(mostDevices)
		if amount.CmpInt64(count) < 0 {
			count = amount.Value()
		}
		all = append(all, workload.Device{Resource: string(name), Count: count})
	}
	slices.SortFunc(all, func(a, b workload.Device) int { return cmp.Compare(a.Resource, b.Resource) })
	return all
}

// PageSize returns the size of the huge pages that a resource is in bytes, such as 1 GiB for
// hugepages-1Gi, and 0 for another resource.
func PageSize(name v1.ResourceName) int64 {
	size, huge := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix)
	if !huge {
		return 0
	}
	bytes, err := quantity.ParseQuantity(size)
	if err != nil || bytes.CmpInt64(mostBytes) >= 0 {
		return 0
	}
	return max(bytes.Value(), 0)
}
