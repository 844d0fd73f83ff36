package statedir

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/intent/strategy"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/cluster"
)

// TestMemoryFollowsTheCluster checks that the first snapshot of the cluster replaces what an earlier agent remembered,
// even if it has no pod. Each later change of the node is written as well.
func TestMemoryFollowsTheCluster(t *testing.T) {
	dir, now := t.TempDir(), time.Hour
	gone := cluster.Memory{Pods: []*cluster.Pod{{Key: "ns/gone", Pod: workload.Pod{UID: "gone"}}}}
	if err := NewMemory(dir, "boot").Keep(&cluster.Snapshot{PodsFrom: cluster.Kubelet, Pods: gone.Pods}, now); err != nil {
		t.Fatal(err)
	}
	m := NewMemory(dir, "boot")
	node := func(label string, milli int64) cluster.Node {
		return cluster.Node{UID: "n", Labels: map[string]string{"l": label}, AllocatableMilli: milli}
	}
	maps := strategy.Maps{strategy.BerthConfig: {strategy.KeyState: strategy.StateRestore}}
	pods := []*cluster.Pod{{Key: "ns/p", Pod: workload.Pod{UID: "p"}}}
	for _, step := range []struct {
		name  string
		after time.Duration
		says  cluster.Snapshot
		want  cluster.Memory
	}{
		{"from no one", memoryEvery, cluster.Snapshot{PodsFrom: cluster.Remembered}, gone},
		{"no pod", memoryEvery, cluster.Snapshot{PodsFrom: cluster.APIServer, Node: node("a", 1)}, cluster.Memory{Node: node("a", 1)}},
		{"a label", memoryEvery, cluster.Snapshot{PodsFrom: cluster.APIServer, Node: node("b", 1)}, cluster.Memory{Node: node("b", 1)}},
		{"too early", memoryEvery - 1, cluster.Snapshot{PodsFrom: cluster.APIServer, Node: node("b", 2)}, cluster.Memory{Node: node("b", 1)}},
		{"CPU", 1, cluster.Snapshot{PodsFrom: cluster.APIServer, Node: node("b", 2)}, cluster.Memory{Node: node("b", 2)}},
		{"a ConfigMap", memoryEvery, cluster.Snapshot{PodsFrom: cluster.APIServer, Node: node("b", 2), ConfigMaps: maps}, cluster.Memory{Node: node("b", 2), ConfigMaps: maps}},
		{"a pod", memoryEvery, cluster.Snapshot{PodsFrom: cluster.Kubelet, Pods: pods, Node: node("b", 2)}, cluster.Memory{Pods: pods, Node: node("b", 2)}},
	} {
		now += step.after
		if err := m.Keep(&step.says, now); err != nil {
			t.Fatal(err)
		}
		got, err := NewMemory(dir, "boot").Recall()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(ids(step.want), ids(got)); diff != "" {
			t.Errorf("%s: pods (-want +got):\n%s", step.name, diff)
		}
		if diff := cmp.Diff(step.want.Node, got.Node); diff != "" {
			t.Errorf("%s: node (-want +got):\n%s", step.name, diff)
		}
		if diff := cmp.Diff(step.want.ConfigMaps, got.ConfigMaps); diff != "" {
			t.Errorf("%s: ConfigMaps (-want +got):\n%s", step.name, diff)
		}
	}
	if got, err := NewMemory(dir, "another boot").Recall(); err != nil || len(got.Pods) > 0 || got.Node.UID != "" {
		t.Errorf("of another boot: %+v, %v", got, err)
	}
}

// TestMemoryIsTriedAgain checks that a failed write is tried again a second later.
func TestMemoryIsTriedAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	m := NewMemory(dir, "boot")
	s := &cluster.Snapshot{PodsFrom: cluster.APIServer}
	for i, fails := range []bool{true, false, true} {
		if err := m.Keep(s, time.Duration(i)*memoryEvery/2); (err != nil) != fails {
			t.Errorf("after %d halves of a second: %v", i, err)
		}
	}
}

// ids returns the UIDs of the remembered pods.
func ids(m cluster.Memory) []string {
	var all []string
	for _, p := range m.Pods {
		all = append(all, p.UID)
	}
	return all
}
