package agent

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/cluster"
	"github.com/berth-project/berth/internal/statedir"
	"github.com/berth-project/berth/internal/workload"
)

// What an earlier agent knew is written over by the first snapshot of the cluster, also where no
// pod is left, and again with every change of the node.
func TestMemoryFollowsTheCluster(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.boot()
		m.end() // what follows does as the loop
		c := m.controls
		dir, boot := c.opts.Config.StateDir, c.opts.BootID
		gone := cluster.Memory{Pods: []*cluster.Pod{{Key: "ns/gone", Pod: workload.Pod{UID: "gone"}}}}
		if err := statedir.SaveMemory(dir, boot, gone); err != nil {
			t.Fatal(err)
		}
		node := func(label string, milli int64) cluster.Node {
			return cluster.Node{UID: "n", Labels: map[string]string{"l": label}, AllocatableMilli: milli}
		}
		pods := []*cluster.Pod{{Key: "ns/p", Pod: workload.Pod{UID: "p"}}}
		for _, step := range []struct {
			name string
			says cluster.Snapshot
			want cluster.Memory
		}{
			{"nobody told", cluster.Snapshot{PodsFrom: cluster.Remembered}, gone},
			{"no pod", cluster.Snapshot{PodsFrom: cluster.APIServer, Node: node("a", 1)}, cluster.Memory{Node: node("a", 1)}},
			{"a label", cluster.Snapshot{PodsFrom: cluster.APIServer, Node: node("b", 1)}, cluster.Memory{Node: node("b", 1)}},
			{"CPU", cluster.Snapshot{PodsFrom: cluster.APIServer, Node: node("b", 2)}, cluster.Memory{Node: node("b", 2)}},
			{"a pod", cluster.Snapshot{PodsFrom: cluster.Kubelet, Pods: pods, Node: node("b", 2)}, cluster.Memory{Pods: pods, Node: node("b", 2)}},
		} {
			time.Sleep(memoryEvery)
			c.keep(&step.says)
			got, err := statedir.LoadMemory(dir, boot)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(ids(step.want), ids(got)); diff != "" {
				t.Errorf("%s: pods (-want +got):\n%s", step.name, diff)
			}
			if diff := cmp.Diff(step.want.Node, got.Node); diff != "" {
				t.Errorf("%s: node (-want +got):\n%s", step.name, diff)
			}
		}
	})
}

// ids are the pods that are remembered.
func ids(m cluster.Memory) []string {
	var all []string
	for _, p := range m.Pods {
		all = append(all, p.UID)
	}
	return all
}
