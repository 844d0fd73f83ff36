package cluster

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// recorded reads a recorded machine of testdata/machines.
func recorded(t *testing.T, name string) *topology.Topology {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "testdata", "machines", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	recording, err := topology.ParseRecording(text)
	if err != nil {
		t.Fatal(err)
	}
	machine, err := topology.Discover(recording)
	if err != nil {
		t.Fatal(err)
	}
	return machine
}

// nodeTopologies returns the resource for the dynamic client.
func nodeTopologies() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "berth.dev", Version: "v1alpha1", Resource: v1alpha1.NodeTopologyResource}
}

// topologyObject returns the object that a node's agent would write.
func topologyObject(name string, machine *topology.Topology) *v1alpha1.NodeTopology {
	return &v1alpha1.NodeTopology{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.KindNodeTopology},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       machine.Spec(),
		Status:     topologyStatus(machine, metav1.ConditionTrue),
	}
}

// topologyStatus returns the status of a node whose agent runs; pinnable reports whether the agent sets CPU sets.
func topologyStatus(machine *topology.Topology, pinnable metav1.ConditionStatus) v1alpha1.NodeTopologyStatus {
	now := metav1.Now()
	return v1alpha1.NodeTopologyStatus{
		AgentVersion:      "test",
		PlacementVersions: []int64{v1alpha1.PlacementVersion},
		Counts:            machine.Counts(),
		FreeCPUs:          int64(machine.Online.Size()),
		Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Running", LastTransitionTime: now},
			{Type: v1alpha1.ConditionPinnable, Status: pinnable, Reason: "Test", LastTransitionTime: now},
		},
	}
}

func toUnstructured(t *testing.T, object any) *unstructured.Unstructured {
	t.Helper()
	content, err := convert(object)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func convert(object any) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	return &unstructured.Unstructured{Object: content}, err
}

// setPinnable writes the status of a node's topology.
func (s *stand) setPinnable(ctx context.Context, name string, machine *topology.Topology, state metav1.ConditionStatus) error {
	object := topologyObject(name, machine)
	object.Status = topologyStatus(machine, state)
	content, err := convert(object)
	if err != nil {
		return err
	}
	resource := s.dynamic.Resource(nodeTopologies())
	stored, err := resource.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	stored.Object["status"] = content.Object["status"]
	_, err = resource.UpdateStatus(ctx, stored, metav1.UpdateOptions{})
	return err
}

// putTopology creates the object and its status, as an agent does.
func (s *stand) putTopology(t *testing.T, object *v1alpha1.NodeTopology) {
	t.Helper()
	resource := s.dynamic.Resource(nodeTopologies())
	made, err := resource.Create(t.Context(), toUnstructured(t, object), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create NodeTopology %s: %v", object.Name, err)
	}
	full := toUnstructured(t, object)
	made.Object["status"] = full.Object["status"]
	if _, err := resource.UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatalf("update status of NodeTopology %s: %v", object.Name, err)
	}
}

// rewrite replaces the spec of a node's topology, with a correct or a false one.
func (s *stand) rewrite(t *testing.T, object *v1alpha1.NodeTopology) {
	t.Helper()
	resource := s.dynamic.Resource(nodeTopologies())
	stored, err := resource.Get(t.Context(), object.Name, metav1.GetOptions{})
	must(t, err)
	stored.Object["spec"] = toUnstructured(t, object).Object["spec"]
	_, err = resource.Update(t.Context(), stored, metav1.UpdateOptions{})
	must(t, err)
}

// nodeObject returns a ready node with all resources of the machine, and no practical limit on pods.
func nodeObject(name string, machine *topology.Topology) *v1.Node {
	all := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewQuantity(int64(machine.Online.Size()), resource.DecimalSI),
		v1.ResourceMemory: resource.MustParse("1Ti"),
		v1.ResourcePods:   resource.MustParse("1000"),
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}},
		Status: v1.NodeStatus{
			Capacity: all, Allocatable: all,
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}},
		},
	}
}

// putNode creates a node and its topology, and the Lease of its agent.
func (s *stand) putNode(t *testing.T, name string, machine *topology.Topology) {
	t.Helper()
	s.createNode(t.Context(), t, nodeObject(name, machine))
	s.putTopology(t, topologyObject(name, machine))
}

func (s *stand) createNode(ctx context.Context, t *testing.T, node *v1.Node) {
	t.Helper()
	if _, err := s.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create node %s: %v", node.Name, err)
	}
}

// set parses a valid CPU list.
func set(list string) cpuset.Set {
	s, err := cpuset.Parse(list)
	if err != nil {
		panic(err)
	}
	return s
}
