package agent

import (
	"maps"
	"testing"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/kubelet"
	"github.com/berth-project/berth/internal/node/nri"
)

// annotated has the annotations written to pods, by "name key". The value "-" is a removal.
type annotated map[string]string

func (a annotated) Annotate(pod cluster.Object, key string, value *string) {
	if a[pod.Name+" "+key] = "-"; value != nil {
		a[pod.Name+" "+key] = *value
	}
}

// took returns and forgets the last value of a key.
func (a annotated) took(key string) string {
	value := a[key]
	delete(a, key)
	return value
}

// shows makes the API server show pods of one container with these annotations, by name. The annotations decide between
// exclusive CPUs and the shared pool.
func (m *machine) shows(pods map[string]map[string]string) {
	m.t.Helper()
	var all []*cluster.Pod
	for name, annotations := range pods {
		all = append(all, &cluster.Pod{
			Key: "ns/" + name, Object: cluster.Object{Namespace: "ns", Name: name, UID: name}, From: cluster.APIServer,
			Pod: workload.Pod{
				Namespace: "ns", Name: name, UID: name, Annotations: annotations, Scheduled: 1000,
				Containers: []workload.Container{{Name: "main", Resources: workload.Resources{CPURequest: 1000, CPULimit: 1000, MemoryLimit: 1 << 20}}},
			},
		})
	}
	c := m.controls
	c.mu.Lock()
	c.inventory.Take(&cluster.Snapshot{Generation: 1, PodsFrom: cluster.APIServer, Node: cluster.Node{UID: "n", AllocatableMilli: 4000}, Pods: all})
	c.cluster.stale = true
	c.mu.Unlock()
	m.run(3*time.Second, 0)
}

// kernel sets the effective CPUs of both pods' groups.
func (m *machine) kernel(own, other string) {
	m.write("sys/fs/cgroup/podp/c/cpuset.cpus.effective", own+"\n")
	m.write("sys/fs/cgroup/podx/c/cpuset.cpus.effective", other+"\n")
	m.run(3*time.Second, 0)
}

// A running pod moves to other CPUs after the shared pool has left them. The pool gets the old CPUs after the pod was
// seen to have left them. The agent then writes the placement, and removes the request once the API server shows it.
// The next agent continues in the middle of a move.
func TestMove(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		inNodes(t, func(t *testing.T, m *machine, _ *moves) {
			wrote := annotated{}
			asks := map[string]string{
				v1alpha1.AnnotationCPUSetScheduler: "true", v1alpha1.AnnotationMovable: "true",
				v1alpha1.AnnotationPlacement: `{"v":1,"topology":"0123456789abcdef","containers":{"main":{"cpus":"0","mems":"0","policy":"exclusive"}}}`,
			}
			event := func(kind nri.Kind, pod string) nri.Event {
				return nri.Event{
					Kind: kind, Pod: nri.Pod{ID: "box-" + pod, UID: pod, Namespace: "ns", Name: pod, CgroupParent: "pod" + pod},
					Container: nri.Container{ID: "c-" + pod, PodID: "box-" + pod, Name: "main", CgroupPath: "pod" + pod + "/c", State: nri.Running},
				}
			}
			begin := func() {
				m.boot()
				m.joins()
				c := m.controls
				c.mu.Lock()
				c.built.pins.Join(wrote)
				if err := kubeletSays(c, kubelet.Reading{Whole: true}); err != nil {
					t.Error(err)
				}
				c.mu.Unlock()
			}
			for _, pod := range []string{"p", "x"} {
				for _, group := range []string{"pod" + pod, "pod" + pod + "/c"} {
					m.addGroup(group, "max 100000")
					m.memory(group, "0-3", 1, 1)
				}
			}
			begin()
			m.shows(map[string]map[string]string{"p": asks, "x": nil})
			m.answers(nri.Event{Kind: nri.Synchronize})
			for _, pod := range []string{"x", "p"} {
				m.answers(event(nri.Create, pod))
				m.answers(event(nri.Start, pod))
			}
			m.kernel("0", "1-3")
			has := func(what, own, other string) {
				t.Helper()
				if p, x := m.read("sys/fs/cgroup/podp/c/cpuset.cpus"), m.read("sys/fs/cgroup/podx/c/cpuset.cpus"); p != own || x != other {
					t.Errorf("%s (restarts: %v): the pod has %q, the other one %q, want %q and %q", what, restarts, p, x, own, other)
				}
			}
			m.kernel("0", "1-3")
			has("before", "0", "1-3")

			asks = maps.Clone(asks)
			asks[v1alpha1.AnnotationMove] = `{"v":1,"from":"0","to":"2"}`
			m.shows(map[string]map[string]string{"p": asks, "x": nil})
			has("the other one leaves first", "0", "1,3")
			m.kernel("0", "1,3")
			has("it comes", "2", "1,3")
			if restarts {
				m.kill()
				m.write("sys/fs/cgroup/podp/c/cpuset.cpus.effective", "2\n")
				begin()
				m.shows(map[string]map[string]string{"p": asks, "x": nil})
				m.answers(nri.Event{
					Kind: nri.Synchronize, Pods: []nri.Pod{event(nri.Start, "p").Pod, event(nri.Start, "x").Pod},
					Containers: []nri.Container{event(nri.Start, "p").Container, event(nri.Start, "x").Container},
				})
			}
			m.kernel("2", "1,3")
			has("it was seen to have left", "2", "0-1,3")
			placed := `{"v":1,"topology":"`
			if got := wrote.took("p " + v1alpha1.AnnotationPlacement); got[:len(placed)] != placed || got[len(placed)+16:] != `","containers":{"main":{"cpus":"2","mems":"0-1","policy":"exclusive"}}}` {
				t.Errorf("the placement is %s", got)
			} else if asks[v1alpha1.AnnotationPlacement] = got; wrote.took("p "+v1alpha1.AnnotationMove) != "" {
				t.Error("the move is answered before the API server shows the placement")
			}
			m.shows(map[string]map[string]string{"p": asks, "x": nil})
			if got := wrote.took("p " + v1alpha1.AnnotationMove); got != "-" {
				t.Errorf("the move became %q", got)
			}
			asks[v1alpha1.AnnotationMove] = `{"v":1,"from":"0","to":"3"}`
			m.shows(map[string]map[string]string{"p": asks, "x": nil})
			if got := wrote.took("p " + v1alpha1.AnnotationMove); got != `{"v":1,"from":"0","to":"3","refused":"the pod has CPUs 2, not 0"}` {
				t.Errorf("a move of what it has no more became %q", got)
			}
			has("there it stays", "2", "0-1,3")
			if err := m.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}
