package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/kubelet"
	"github.com/berth-project/berth/internal/node/nri"
)

// The agent is killed after it answered the runtime with more memory nodes than the placement has, and before it wrote
// the placement. The next agent does not take these nodes from the container, and writes the placement. It does so
// whether the runtime made the container's group before it started or after.
func TestKilledBeforeWiderPlacement(t *testing.T) {
	const placement = `{"v":1,"topology":"0123456789abcdef","containers":{"main":{"cpus":"0-1","mems":"0","policy":"exclusive"}}}`
	for _, late := range []bool{false, true} {
		inNodes(t, func(t *testing.T, m *machine, _ *moves) {
			wrote := annotated{}
			begin := func(memory int64) {
				m.joins()
				c := m.controls
				c.mu.Lock()
				defer c.mu.Unlock()
				c.built.pins.Join(wrote)
				if err := kubeletSays(c, kubelet.Reading{Whole: true}); err != nil {
					t.Error(err)
				}
				pod := func(name string, annotations map[string]string, memory int64) *cluster.Pod {
					return &cluster.Pod{
						Key: "ns/" + name, Object: cluster.Object{Namespace: "ns", Name: name, UID: name}, From: cluster.APIServer,
						Pod: workload.Pod{
							Namespace: "ns", Name: name, UID: name, Annotations: annotations, Scheduled: 2000, Besides: workload.Besides{ScheduledMemory: memory << 30},
							Containers: []workload.Container{{Name: "main", Resources: workload.Resources{CPURequest: 2000, CPULimit: 2000, MemoryLimit: memory << 30}}},
						},
					}
				}
				c.inventory.Take(&cluster.Snapshot{
					Generation: 1, PodsFrom: cluster.APIServer, Node: cluster.Node{UID: "n", AllocatableMilli: 4000},
					Pods: []*cluster.Pod{
						pod("p", map[string]string{v1alpha1.AnnotationCPUSetScheduler: "true", v1alpha1.AnnotationPlacement: placement}, 1),
						pod("x", nil, memory),
					},
				})
				c.cluster.stale = true
			}
			event := nri.Event{
				Pod:       nri.Pod{ID: "box", UID: "p", Namespace: "ns", Name: "p", CgroupParent: "podp", CgroupPath: "podp/box"},
				Container: nri.Container{ID: "c", PodID: "box", Name: "main", CgroupPath: "podp/c"},
			}
			says := func(kind nri.Kind) nri.Reply {
				one := event
				if one.Kind = kind; kind == nri.Start {
					one.Container.State = nri.Running
				}
				return m.answers(one)
			}
			made := func() {
				for _, group := range []string{"podp", "podp/c"} {
					m.addGroup(group, "max 100000")
					m.memory(group, "0-1", 1, 1)
				}
				for file, answered := range map[string]string{"cpuset.cpus": "0-1", "cpuset.mems": "0-1"} {
					m.write("sys/fs/cgroup/podp/c/"+file, answered+"\n")
				}
			}
			m.boot()
			begin(14)
			m.answers(nri.Event{Kind: nri.Synchronize})
			says(nri.RunPod)
			if got := says(nri.Create).Adjust; got.CPUs.String() != "0-1" || got.Mems.String() != "0-1" {
				t.Fatalf("answered %+v", got)
			}
			m.kill()
			if len(wrote) > 0 {
				t.Fatalf("written before the end: %v", wrote)
			}
			if !late {
				made()
			}
			m.boot()
			begin(1) // the other pod has left room: the pod would fit now
			listed := event.Container
			listed.Resources.CPUs, listed.Resources.Mems = listed.Resources.CPUs.Add(0).Add(1), listed.Resources.Mems.Add(0).Add(1)
			m.answers(nri.Event{Kind: nri.Synchronize, Pods: []nri.Pod{event.Pod}, Containers: []nri.Container{listed}})
			if late {
				made()
			}
			says(nri.Start)
			m.run(4*time.Second, 0)
			if got := m.read("sys/fs/cgroup/podp/c/cpuset.mems"); got != "0-1" {
				t.Errorf("late %v: memory nodes %q", late, got)
			}
			want := strings.Replace(placement, `"mems":"0"`, `"mems":"0-1"`, 1)
			got, err := v1alpha1.DecodePlacement(wrote.took("p " + v1alpha1.AnnotationPlacement))
			if wanted, _ := v1alpha1.DecodePlacement(want); err != nil || got.Containers["main"] != wanted.Containers["main"] {
				t.Errorf("late %v: wrote %+v, %v", late, got, err)
			}
			if err := m.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}
