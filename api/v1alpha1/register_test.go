package v1alpha1

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// TestScheme reads a NodeTopology the way a client does.
func TestScheme(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	want := &NodeTopology{
		TypeMeta:   metav1.TypeMeta{APIVersion: APIVersion, Kind: KindNodeTopology},
		ObjectMeta: metav1.ObjectMeta{Name: "node-1"},
		Spec: NodeTopologySpec{
			Hash: "0123456789abcdef", Online: "0-1", Cores: []CPUList{"0-1"},
			NUMANodes: []NUMANode{{CPUs: "0-1", MemoryBytes: 1 << 30, Distances: []int64{10}}},
		},
		Status: NodeTopologyStatus{PlacementVersions: []int64{1}, Counts: NodeTopologyCounts{CPUs: 2}, Conditions: []metav1.Condition{{Type: ConditionReady, Status: metav1.ConditionTrue}}},
	}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, kind, err := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer().Decode(text, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" || kind.GroupVersion() != GroupVersion() {
		t.Errorf("%v (-want +got):\n%s", kind, diff)
	}
	changed := want.DeepCopy()
	changed.Spec.NUMANodes[0].Distances[0], changed.Spec.Cores[0], changed.Status.Conditions[0].Type = 20, "1", ""
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a change of the copy changed the original:\n%s", diff)
	}
}
