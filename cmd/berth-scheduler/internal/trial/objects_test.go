package trial

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Where the server keeps its objects.
const (
	nodePath = "/api/v1/nodes"
	podPath  = "/api/v1/pods"
)

// node is a ready node with so many CPUs.
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

// pod is an ordinary pod of one container, in milli-CPUs; limit 0 is none.
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

// pinned is the seed's kind of pod: opted in, with an integer limit.
func pinned(name string, request, limit int64) *v1.Pod {
	p := ordinary(name, request*1000, limit*1000)
	p.Annotations = map[string]string{"cpuset-scheduler": "true"}
	return p
}

func name(prefix string, i int) string { return fmt.Sprintf("%s-%03d", prefix, i) }
