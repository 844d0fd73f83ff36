package trial

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The resources of nodes and pods.
const (
	nodePath = "/api/v1/nodes"
	podPath  = "/api/v1/pods"
)

// node returns a ready node with that many CPUs.
func node(name string, cpus int) *v1.Node {
	amount := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewQuantity(int64(cpus), resource.DecimalSI),
		v1.ResourceMemory: resource.MustParse("256Gi"),
		v1.ResourcePods:   resource.MustParse("1000"),
	}
	return &v1.Node{
		TypeMeta:   metav1.TypeMeta{Kind: "Node", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}},
		Status: v1.NodeStatus{
			Capacity: amount, Allocatable: amount,
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}},
		},
	}
}

// addNode stores a node.
func (c *cluster) addNode(n *v1.Node) {
	c.Helper()
	if err := c.api.Put(nodePath, "", n.Name, n); err != nil {
		c.Fatal(err)
	}
}

// ordinary returns a pod of one container with a request and a limit in milli-CPUs; limit 0 means none.
func ordinary(name string, request, limit int64) *v1.Pod {
	need := v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(request, resource.DecimalSI)}}
	if limit > 0 {
		need.Limits = v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(limit, resource.DecimalSI)}
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: v1.PodSpec{
			SchedulerName: schedulerName,
			Containers:    []v1.Container{{Name: "app", Image: "app", Resources: need}},
		},
	}
}

// pinned returns an opted-in pod with a request and a limit in whole CPUs.
func pinned(name string, request, limit int64) *v1.Pod {
	p := ordinary(name, request*1000, limit*1000)
	p.Annotations = map[string]string{"cpuset-scheduler": "true"}
	return p
}

func name(prefix string, i int) string { return fmt.Sprintf("%s-%03d", prefix, i) }
