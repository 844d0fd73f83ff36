package cluster

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/intent/kubepod"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// resizes is a node for which the test acts as kubelet and agent, step by step.
type resizes struct {
	*stand
	machine *topology.Topology
}

// TestResize resizes a pod with exclusive CPUs through the API server while other pods wait for CPUs of its node. The
// scheduler must not give out CPUs that the resize may need. Afterwards the waiting pods get the CPUs that are left.
func TestResize(t *testing.T) {
	t.Parallel()
	r := &resizes{stand: installed(t), machine: recorded(t, "two-socket-ht")}
	r.putNode(t, "n0", r.machine)
	newAgents(t, r.client, 2*time.Second).live(t, "n0")
	r.startScheduler(t, "scheduler", sideBySide)
	half := r.machine.Online.Size() / 2

	r.create(t, pinnedPod("a", 4))
	r.placed(t, metav1.NamespaceDefault, "a")
	r.report(t, "a")
	r.resize(t, "a", half)
	r.create(t, pinnedPod("waits", 4))
	r.waits(t, "waits", "a resize or a move of exclusive CPUs under way")

	r.putOff(t, "a", v1.PodReasonDeferred)
	r.placed(t, metav1.NamespaceDefault, "waits") // beside the CPUs that the resize needs
	r.create(t, pinnedPod("large", half-4))
	r.waits(t, "large", "no whole core left for the shared pool") // with the deferred CPUs

	before := r.cpus(t, "a")
	r.carryOut(t, "a")
	if after := r.cpus(t, "a"); after.Size() != half || !before.IsSubsetOf(after) || after.Intersects(r.cpus(t, "waits")) {
		t.Errorf("resized from %s to %s beside %s", before, after, r.cpus(t, "waits"))
	}
	r.waits(t, "large", "no whole core left for the shared pool") // with the assigned CPUs

	grown := r.cpus(t, "a")
	r.resize(t, "a", 8)
	r.carryOut(t, "a")
	r.placed(t, metav1.NamespaceDefault, "large")
	if after := r.cpus(t, "a"); after.Size() != 8 || !before.IsSubsetOf(after) || !after.IsSubsetOf(grown) || after.Intersects(r.cpus(t, "large")) {
		t.Errorf("resized from %s by %s to %s beside %s", before, grown, after, r.cpus(t, "large"))
	}
}

func (r *resizes) create(t *testing.T, pod *v1.Pod) {
	t.Helper()
	_, err := create(t.Context(), r.client, pod)
	must(t, err)
}

func (r *resizes) get(t *testing.T, name string) *v1.Pod {
	t.Helper()
	pod, err := r.client.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	return pod
}

func (r *resizes) cpus(t *testing.T, name string) cpuset.Set {
	t.Helper()
	placed, problems := v1alpha1.DecodePlacement(r.get(t, name).Annotations[v1alpha1.AnnotationPlacement])
	must(t, problems.Err())
	return set(placed.Containers["app"].CPUs)
}

// resize does what `kubectl patch --subresource resize` does.
func (r *resizes) resize(t *testing.T, name string, cpus int) {
	t.Helper()
	pod := r.get(t, name)
	list := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(cpus), resource.DecimalSI)}
	pod.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: list, Limits: list}
	_, err := r.client.CoreV1().Pods(pod.Namespace).UpdateResize(t.Context(), name, pod, metav1.UpdateOptions{})
	must(t, err)
}

// report makes the kubelet report that the pod runs with the resources of its current spec, including the observed
// generation.
func (r *resizes) report(t *testing.T, name string) {
	t.Helper()
	pod := r.get(t, name)
	pod.Status.Conditions = keepScheduled(pod)
	pod.Status.ObservedGeneration = pod.Generation
	pod.Status.ContainerStatuses = []v1.ContainerStatus{{
		Name: "app", Image: "none.example/none", ImageID: "none", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
		Resources: pod.Spec.Containers[0].Resources.DeepCopy(), AllocatedResources: pod.Spec.Containers[0].Resources.Requests,
	}}
	r.setStatus(t, pod)
}

// putOff makes the kubelet report that it does not carry out a resize.
func (r *resizes) putOff(t *testing.T, name, reason string) {
	t.Helper()
	pod := r.get(t, name)
	pod.Status.ObservedGeneration = pod.Generation
	pod.Status.Conditions = append(keepScheduled(pod), v1.PodCondition{Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: reason})
	r.setStatus(t, pod)
}

func (r *resizes) setStatus(t *testing.T, pod *v1.Pod) {
	t.Helper()
	_, err := r.client.CoreV1().Pods(pod.Namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	must(t, err)
}

func keepScheduled(pod *v1.Pod) []v1.PodCondition {
	var kept []v1.PodCondition
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled {
			kept = append(kept, c)
		}
	}
	return kept
}

// carryOut makes the agent plan a resize and write the annotation, and the kubelet report that the resize is complete.
func (r *resizes) carryOut(t *testing.T, name string) {
	t.Helper()
	m, err := alloc.Compile(r.machine)
	must(t, err)
	n := place.New(place.Facts{Machine: m, Hash: r.machine.Hash(), AllocatableMilli: int64(r.machine.Online.Size()) * 1000, Pinnable: true})
	all, err := r.client.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for i := range all.Items {
		if pod := &all.Items[i]; isBound(pod) {
			n.Pods.Put(kubepod.Of(pod))
			n.Pods.Observe(observed.Container{ID: pod.Name, PodUID: string(pod.UID), Name: "app", Phase: observed.Running, CPUs: r.cpus(t, pod.Name)})
		}
	}
	pod := r.get(t, name)
	n.Events()
	n.Pods.Put(kubepod.Of(pod).CarriedOut())
	_, err = n.Resize(string(pod.UID))
	must(t, err)
	for _, e := range n.Events() {
		if e.PodUID == string(pod.UID) && e.Annotation != nil {
			pod.Annotations[v1alpha1.AnnotationPlacement] = e.Annotation.Encode()
			_, err := r.client.CoreV1().Pods(pod.Namespace).Update(t.Context(), pod, metav1.UpdateOptions{})
			must(t, err)
		}
	}
	r.report(t, name)
}

// waits waits until the pod's status says that it is not scheduled for this reason.
func (r *resizes) waits(t *testing.T, name, why string) {
	t.Helper()
	within(t, func() string {
		for _, c := range r.get(t, name).Status.Conditions {
			if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && containsAll(c.Message, why) {
				return ""
			}
		}
		return fmt.Sprintf("%s waits for another reason than %q: %+v", name, why, r.get(t, name).Status.Conditions)
	})
}
