package cluster

import (
	"encoding/json"
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/api/v1alpha1"
)

// podOption changes a pod before it is created.
type podOption func(*v1.Pod)

// podObject returns a pod with one container "app" for berth-scheduler. Its grace period is zero, because no kubelet
// runs it.
func podObject(name, request, limit string, options ...podOption) *v1.Pod {
	none := int64(0)
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault, Annotations: map[string]string{}},
		Spec: v1.PodSpec{
			SchedulerName:                 "berth-scheduler",
			TerminationGracePeriodSeconds: &none,
			Containers:                    []v1.Container{container("app", request, limit)},
		},
	}
	for _, option := range options {
		option(pod)
	}
	return pod
}

// container returns a container with a CPU request and limit; an empty one is omitted.
func container(name, request, limit string) v1.Container {
	c := v1.Container{Name: name, Image: "none.example/none", Resources: v1.ResourceRequirements{
		Requests: v1.ResourceList{}, Limits: v1.ResourceList{},
	}}
	if request != "" {
		c.Resources.Requests[v1.ResourceCPU] = resource.MustParse(request)
	}
	if limit != "" {
		c.Resources.Limits[v1.ResourceCPU] = resource.MustParse(limit)
	}
	return c
}

// pinnedPod returns a pod that asks for n exclusive CPUs.
func pinnedPod(name string, n int, options ...podOption) *v1.Pod {
	cpus := fmt.Sprint(n)
	all := append([]podOption{expecting(expectation{CPUs: map[string]int{"app": n}}), annotated(v1alpha1.AnnotationCPUSetScheduler, "true")}, options...)
	return podObject(name, cpus, cpus, all...)
}

// expecting tells the ledger what the pod may expect.
func expecting(e expectation) podOption {
	text, err := json.Marshal(e)
	if err != nil {
		panic(err) // A map of numbers and strings always encodes.
	}
	return annotated(expectKey, string(text))
}

func annotated(key, value string) podOption {
	return func(pod *v1.Pod) {
		pod.Annotations = maps.Clone(pod.Annotations)
		pod.Annotations[key] = value
	}
}

// onNode restricts the pod to one node.
func onNode(name string) podOption {
	return func(pod *v1.Pod) { pod.Spec.NodeSelector = map[string]string{v1.LabelHostname: name} }
}

func withPriority(class string) podOption {
	return func(pod *v1.Pod) { pod.Spec.PriorityClassName = class }
}

func requesting(request string) podOption {
	return func(pod *v1.Pod) {
		pod.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse(request)
	}
}

func withContainers(more ...v1.Container) podOption {
	return func(pod *v1.Pod) { pod.Spec.Containers = append(pod.Spec.Containers, more...) }
}

// withSidecar adds an init container that continues to run.
func withSidecar(c v1.Container) podOption {
	always := v1.ContainerRestartPolicyAlways
	c.RestartPolicy = &always
	return withInit(c)
}

func withInit(c v1.Container) podOption {
	return func(pod *v1.Pod) { pod.Spec.InitContainers = append(pod.Spec.InitContainers, c) }
}

// asWhole requests CPUs for the pod rather than for its containers.
func asWhole(cpus string) podOption {
	return func(pod *v1.Pod) {
		pod.Spec.Resources = &v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpus)},
			Limits:   v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpus)},
		}
		for i := range pod.Spec.Containers {
			pod.Spec.Containers[i].Resources = v1.ResourceRequirements{}
		}
	}
}

func labelled(key, value string) podOption {
	return func(pod *v1.Pod) { pod.Labels = map[string]string{key: value} }
}
