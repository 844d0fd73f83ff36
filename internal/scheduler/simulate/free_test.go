package simulate_test

import (
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/capability/place/hardware"
	"github.com/berth-project/berth/internal/intent/kubepod"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/scheduler/simulate"
	"github.com/berth-project/berth/internal/value/cpuset"
)

func parsed(t *testing.T, list string) cpuset.Set {
	t.Helper()
	s, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// host returns the facts of a machine of testdata as an agent reads it.
func host(t *testing.T, machine, reserved string) (*hardware.Machine, place.Facts) {
	t.Helper()
	archive, err := txtar.ParseFile("../../../testdata/machines/" + machine + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	tree := fstest.MapFS{}
	for _, f := range archive.Files {
		tree[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	m := new(hardware.Machine)
	facts, _, err := m.Update(tree, hardware.Basis{Reserved: parsed(t, reserved)}, 0)
	if err != nil {
		t.Fatal(err)
	}
	facts.AllocatableMilli, facts.Pinnable = m.AllocatableMilli(), true
	return m, facts
}

// holding returns a running pod on node with these CPUs.
func holding(t *testing.T, node, hash, cpus string) *v1.Pod {
	t.Helper()
	placed := v1alpha1.Placement{V: 1, Topology: hash, Containers: map[string]v1alpha1.ContainerPlacement{
		"app": {CPUs: cpus, Mems: "0", Policy: v1alpha1.PlacementExclusive},
	}}
	list := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(parsed(t, cpus).Size()), resource.DecimalSI)}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: cpus, UID: types.UID(cpus),
			Annotations: map[string]string{"cpuset-scheduler": "true", v1alpha1.AnnotationPlacement: placed.Encode()},
		},
		Spec:   v1.PodSpec{NodeName: node, Containers: []v1.Container{{Name: "app", Resources: v1.ResourceRequirements{Limits: list, Requests: list}}}},
		Status: v1.PodStatus{Phase: v1.PodRunning},
	}
}

// TestFreeAsPublished checks that a cluster's view has the free CPUs and the fragmentation that the node's agent
// publishes: what a further pod can get.
func TestFreeAsPublished(t *testing.T) {
	for name, test := range map[string]struct {
		machine, reserved string
		held              []string
		free              int
	}{
		"two CPUs, no pod":                {"kvm-guest-2c", "", nil, 1},
		"two CPUs, one held":              {"kvm-guest-2c", "", []string{"1"}, 0},
		"two CPUs, one reserved":          {"kvm-guest-2c", "0", nil, 0},
		"threads of a core":               {"vm-2s2n-smt", "", nil, 6},
		"some held":                       {"vm-2s2n-smt", "", []string{"0-1", "2"}, 3},
		"a whole core left, and a half":   {"vm-2s2n-smt", "", []string{"0-1", "2-3", "4"}, 1},
		"a whole core left":               {"vm-2s2n-smt", "", []string{"0-1", "2-3", "4-5"}, 0},
		"a half of a core reserved":       {"vm-2s2n-smt", "0", []string{"2-3"}, 3},
		"efficiency cores stay, no other": {"hybrid-pe", "", nil, 12},
	} {
		t.Run(name, func(t *testing.T) {
			m, facts := host(t, test.machine, test.reserved)
			agent := place.New(facts)
			var o simulate.Objects
			for _, cpus := range test.held {
				p := holding(t, "a", facts.Hash, cpus)
				o.Pods = append(o.Pods, simulate.Pod{Pod: p})
				agent.Pods.Put(kubepod.Of(p))
				answer, err := agent.Create(cpus, "app", cpus)
				if err != nil || len(answer.Own) != 1 || answer.Own[0].CPUs != parsed(t, cpus) {
					t.Fatalf("the agent gives %+v for %s: %v", answer.Own, cpus, err)
				}
				agent.Pods.Observe(observed.Container{ID: cpus, PodUID: cpus, Name: "app", Phase: observed.Running, CPUs: answer.Own[0].CPUs})
			}
			published := v1alpha1.NodeTopology{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
			published.Spec, published.Status = m.Report(agent.Snapshot())
			o.Topologies = []v1alpha1.NodeTopology{published}
			seen := simulate.New(o).View().Nodes[0]
			if seen.Pinned != len(test.held) || seen.Obstacle != "" {
				t.Fatalf("the view is %+v", seen)
			}
			if said := published.Status; int64(seen.FreeCPUs) != said.FreeCPUs || seen.FreeCPUs != test.free || int64(seen.Fragmentation) != said.Fragmentation {
				t.Errorf("%d free CPUs and %d %% seen, %d and %d %% published, want %d free CPUs",
					seen.FreeCPUs, seen.Fragmentation, said.FreeCPUs, said.Fragmentation, test.free)
			}
		})
	}
}

// TestFreeWithoutPromised checks that CPUs which a pod will get are not free, although it is not known which these are.
func TestFreeWithoutPromised(t *testing.T) {
	m, facts := host(t, "vm-2s2n-smt", "")
	published := v1alpha1.NodeTopology{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	published.Spec, published.Status = m.Report(place.New(facts).Snapshot())
	p := holding(t, "a", facts.Hash, "0-1")
	delete(p.Annotations, v1alpha1.AnnotationPlacement)
	v := simulate.New(simulate.Objects{Topologies: []v1alpha1.NodeTopology{published}, Pods: []simulate.Pod{{Pod: p}}}).View()
	if got := v.Nodes[0].FreeCPUs; got != 4 {
		t.Errorf("%d free CPUs, want 4: 8 without a core for the shared pool, and without 2 promised CPUs", got)
	}
}
