package kubepod_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podresource "k8s.io/component-helpers/resource"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/intent/kubepod"
	"github.com/berth-project/berth/internal/intent/workload"
	_ "github.com/berth-project/berth/test/chance" // fixes the cases of the properties
)

func cpus(milli int64) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI)}
}

// drawContainer draws a container with a limit, and its status.
func drawContainer(t *rapid.T, name string) (v1.Container, v1.ContainerStatus) {
	limit := rapid.SampledFrom([]int64{500, 1000, 2000, 4000}).Draw(t, "limit")
	request := func(label string) v1.ResourceList {
		return cpus(min(limit, rapid.SampledFrom([]int64{100, 1000, 2000, 4000}).Draw(t, label)))
	}
	c := v1.Container{Name: name, Resources: v1.ResourceRequirements{Limits: cpus(limit), Requests: request("request")}}
	status := v1.ContainerStatus{Name: name, AllocatedResources: request("allocated")}
	if rapid.Bool().Draw(t, "runs") {
		status.Resources = &v1.ResourceRequirements{Requests: request("running")}
	}
	return c, status
}

func drawPod(t *rapid.T) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"cpuset-scheduler": "true"}}}
	always := v1.ContainerRestartPolicyAlways
	for i := range rapid.IntRange(1, 2).Draw(t, "containers") {
		c, status := drawContainer(t, fmt.Sprintf("app-%d", i))
		p.Spec.Containers = append(p.Spec.Containers, c)
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, status)
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "init containers") {
		c, status := drawContainer(t, fmt.Sprintf("init-%d", i))
		if rapid.Bool().Draw(t, "sidecar") {
			c.RestartPolicy = &always
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, status)
	}
	if rapid.Bool().Draw(t, "overhead") {
		p.Spec.Overhead = cpus(250)
	}
	if request := rapid.SampledFrom([]int64{0, 0, 1000, 6000}).Draw(t, "of the pod"); request > 0 {
		p.Spec.Resources = &v1.ResourceRequirements{Requests: cpus(request)}
	}
	if rapid.IntRange(0, 4).Draw(t, "infeasible") == 0 {
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizePending, Reason: v1.PodReasonInfeasible}}
	}
	return p
}

// TestBeyond compares the need of a pod with the sum that kube-scheduler would compute if its pinned containers
// requested what they get.
func TestBeyond(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPod(rt)
		pin, problems := workload.PinningOf(kubepod.Of(p))
		if len(problems) > 0 {
			return // no whole limit
		}
		has, gets := []int64{}, map[string]int64{}
		for _, c := range pin.Pinned {
			n := rapid.Int64Range(0, 4).Draw(rt, "CPUs") * 1000
			has, gets[c.Name] = append(has, n), n
		}
		raised := p.DeepCopy()
		raise(raised.Spec.Containers, raised.Status.ContainerStatuses, gets)
		raise(raised.Spec.InitContainers, raised.Status.InitContainerStatuses, gets)
		sum := podresource.PodRequests(raised, podresource.PodResourcesOptions{UseStatusResources: true, SkipPodLevelResources: true})
		scheduled := kubepod.Scheduled(p)
		if got, want := pin.BeyondMilli(has, nil), max(0, sum.Cpu().MilliValue()-scheduled); got != want {
			rt.Fatalf("%d, want %d beyond %d", got, want, scheduled)
		}
	})
}

// raise sets the requests to what containers get, wherever a request may be.
func raise(containers []v1.Container, statuses []v1.ContainerStatus, gets map[string]int64) {
	for i := range containers {
		n, found := gets[containers[i].Name]
		if !found {
			continue
		}
		lists := []v1.ResourceList{containers[i].Resources.Requests, statuses[i].AllocatedResources}
		if statuses[i].Resources != nil {
			lists = append(lists, statuses[i].Resources.Requests)
		}
		for _, list := range lists {
			if q := list[v1.ResourceCPU]; q.MilliValue() < n {
				list[v1.ResourceCPU] = *resource.NewMilliQuantity(n, resource.DecimalSI)
			}
		}
	}
}

// TestChanged checks which pods may have been resized.
func TestChanged(t *testing.T) {
	for text, want := range map[string]bool{
		`metadata: {generation: 1}`: false,
		`metadata: {generation: 2}`: true,
		`metadata: {generation: 2, deletionTimestamp: "2026-01-01T00:00:00Z"}`: false,
		`metadata: {generation: 3, deletionTimestamp: "2026-01-01T00:00:00Z"}`: true,
	} {
		if got := kubepod.Of(pod(t, text)).Changed; got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}
