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
	"github.com/berth-project/berth/internal/intent/workload"
)

// Of returns the pod as a plain value.
func Of(p *v1.Pod) workload.Pod { return Requesting(p, Requests(p)) }

// Requesting is Of for a caller that has the result of Requests.
func Requesting(p *v1.Pod, scheduled v1.ResourceList) workload.Pod {
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

// OptsIntoMoves reports whether the pod opted in to other CPUs of its node while it runs. workload.Pinning says whether
// it can have them.
func OptsIntoMoves(p *v1.Pod) bool {
	return p.Annotations[v1alpha1.AnnotationMovable] == v1alpha1.Movable
}

// systemPriority reports whether the pod has a priority that Kubernetes reserves for its own parts: a class name that
// begins with system-, or a value above the highest for users. Some static pods have only the name.
func systemPriority(p *v1.Pod) bool {
	const highestOfUsers = 1_000_000_000 // HighestUserDefinablePriority of pkg/apis/scheduling
	return strings.HasPrefix(p.Spec.PriorityClassName, "system-") || p.Spec.Priority != nil && *p.Spec.Priority > highestOfUsers
}

// ofDaemonSet reports whether a DaemonSet controls the pod, of Kubernetes or of another API group, for example
// OpenKruise.
func ofDaemonSet(p *v1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(p)
	return owner != nil && owner.Kind == "DaemonSet"
}

// changed reports whether the pod's spec changed after its creation, apart from its deletion. A finished resize leaves
// no other trace, because the status then has the new values too.
func changed(p *v1.Pod) bool {
	generation := p.Generation
	if p.DeletionTimestamp != nil {
		generation--
	}
	return generation > 1
}

// Scheduled returns the CPU request of the pod in thousandths, as kube-scheduler adds it to a node with its default
// feature gates. It includes init containers, overhead, pod-level requests and resizes in progress.
func Scheduled(p *v1.Pod) int64 { return cpu(Requests(p)) }

// ScheduledAll returns Scheduled, and the pod's requests of memory and huge pages, in bytes, and of devices.
func ScheduledAll(p *v1.Pod) (milli int64, all workload.Besides) {
	requests := Requests(p)
	return cpu(requests), besides(requests)
}

func besides(list v1.ResourceList) workload.Besides {
	return workload.Besides{ScheduledMemory: memory(list), ScheduledHuge: HugePages(list), Devices: devices(list)}
}

// Requests returns all requests of the pod.
func Requests(p *v1.Pod) v1.ResourceList {
	return resource.PodRequests(p, resource.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
}

// Complete reports whether all containers of the pod ended for good. Such a pod uses no CPU; a pod that is only being
// deleted still does.
func Complete(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
}

// MayPin reports whether the pod may get CPUs of its own. It allocates nothing and is false for ordinary pods, which
// need no other function of this package. A pod in a virtual machine is ordinary, whatever its keys are: no agent pins
// it.
func MayPin(p *v1.Pod) bool {
	return workload.MayPin(p.Labels, p.Annotations) && !InVM(p)
}

// InVM reports whether the pod runs in a virtual machine, by the name of its class. The class itself is not available
// here.
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
	// held is the result of isHeld for the pod.
	held bool
	// resizing is the result of resizing for the pod.
	resizing bool
}

// isHeld reports whether the kubelet does not carry out a resize: the resize is deferred, infeasible, or has failed.
func isHeld(p *v1.Pod) bool {
	return resource.IsPodResizeInfeasible(p) || resource.IsPodResizeDeferred(p) ||
		slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
			return c.Type == v1.PodResizeInProgress && c.Reason == v1.PodReasonError
		})
}

// resizing reports whether the kubelet carries out a resize of CPUs, or is about to, and whether that is only presumed.
// The kubelet retries a failed resize. If the pod's status has an observed generation, that generation decides. The
// limits in the status come from the quota. Without a quota they are the limits from before the resize while the
// container runs.
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

// differs reports whether running containers have other CPU requests or limits than the spec.
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

// standing returns the limit in effect if it differs from the spec's, else 0. held is set only if the kubelet holds
// back the spec's limit, stands in both cases.
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

// effective returns the effective request, also during a resize.
func (r *reader) effective(wished, running, granted int64) int64 {
	if r.infeasible {
		return max(running, granted)
	}
	return max(wished, running, granted)
}

// requestsOfPod returns the effective pod-level requests, including resizes.
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

// Bounds far above every machine, and far below an overflow of a sum.
const (
	mostCPUs  = 1 << 30
	mostBytes = 1 << 50
	// mostDevices is the bound for the devices of a resource.
	mostDevices = 1 << 20
	milli       = 1000
)

// cpu returns thousandths. It compares a quantity before it reads the value: a value that does not fit is arbitrary.
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

// HugePages returns the amounts of huge pages in a list, by page size.
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

// devices returns the amounts of devices and other extended resources in a list, in ascending order of their names.
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

// PageSize returns the page size in bytes of a huge-page resource, for example 1 GiB for hugepages-1Gi, and 0 for
// another resource.
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
