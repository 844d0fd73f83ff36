package cluster

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestMemoryIsKept checks that a restart preserves everything that was known, except the version of a reading.
func TestMemoryIsKept(t *testing.T) {
	always, class := v1.ContainerRestartPolicyAlways, "kata"
	container := func(name string) v1.Container {
		return v1.Container{Name: name, Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1500m"), v1.ResourceMemory: resource.MustParse("1Gi")},
			Limits:   v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")},
		}}
	}
	sidecar := container("sidecar")
	sidecar.RestartPolicy = &always
	pod := podOf(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "n", Name: "p", UID: "u", ResourceVersion: "7", Labels: map[string]string{"a": "b"},
			Annotations:       map[string]string{"cpuset-scheduler": "true", "berth.dev/placement": `{"v":1}`},
			DeletionTimestamp: &metav1.Time{Time: time.Unix(5, 0)},
		},
		Spec: v1.PodSpec{
			Containers: []v1.Container{container("a"), container("b")}, InitContainers: []v1.Container{container("first"), sidecar},
			Overhead: v1.ResourceList{v1.ResourceCPU: resource.MustParse("10m")}, RuntimeClassName: &class,
		},
		Status: v1.PodStatus{Conditions: []v1.PodCondition{{
			Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.Unix(3, 0),
		}}},
	}, APIServer, "node")
	was := Memory{Pods: []*Pod{pod}, Node: Node{UID: "x", Labels: map[string]string{"l": "m"}, AllocatableMilli: 7}}
	data, err := json.Marshal(was)
	if err != nil {
		t.Fatal(err)
	}
	var is Memory
	if err := json.Unmarshal(data, &is); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(was, is, cmpopts.IgnoreUnexported(Pod{})); diff != "" {
		t.Error(diff)
	}
}
