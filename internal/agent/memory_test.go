package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/capability/localize/mover"
	"github.com/berth-project/berth/internal/capability/localize/narrowing"
	"github.com/berth-project/berth/internal/intent/strategy"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/kubelet"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// moves is a mover whose passes end when the test says so.
type moves struct {
	mu      sync.Mutex
	orders  []mover.Order
	reports []mover.Report
	ended   chan struct{}
}

func (f *moves) Order(o mover.Order) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.orders = append(f.orders, o)
	f.reports = []mover.Report{{Key: o.Key, Phase: mover.Moving}}
}

func (f *moves) Cancel(key string) {
	f.ends(mover.Report{Key: key, Outcome: locality.Failed, Err: mover.ErrCanceled})
}

func (f *moves) Reports() []mover.Report {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]mover.Report(nil), f.reports...)
}

func (f *moves) Forget(string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reports = nil
}

func (f *moves) Run(ctx context.Context) error {
	<-ctx.Done()
	close(f.ended)
	return nil
}

// ends ends the running pass.
func (f *moves) ends(r mover.Report) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.Phase = mover.Done
	f.reports = []mover.Report{r}
}

// ordered returns the number of ordered passes and the last order.
func (f *moves) ordered() (int, mover.Order) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.orders) == 0 {
		return 0, mover.Order{}
	}
	return len(f.orders), f.orders[len(f.orders)-1]
}

// inNodes runs f on a machine with two NUMA nodes and a fake mover.
func inNodes(t *testing.T, f func(t *testing.T, m *machine, mover *moves)) {
	t.Helper()
	in(t, func(t *testing.T, m *machine) {
		m.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory\n")
		m.write("sys/devices/system/node/online", "0-1\n")
		for node, cpus := range []string{"0-1", "2-3"} {
			dir := fmt.Sprintf("sys/devices/system/node/node%d/", node)
			m.write(dir+"cpulist", cpus+"\n")
			m.write(dir+"distance", []string{"10 20\n", "20 10\n"}[node])
			m.write(dir+"meminfo", fmt.Sprintf("Node %d MemTotal: 8388608 kB\n", node))
		}
		for cpu := range 4 {
			m.write(fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu), fmt.Sprintf("%d\n", cpu))
		}
		fake := &moves{ended: make(chan struct{})}
		m.mover = fake
		f(t, m, fake)
	})
}

// memory gives a group CPUs, and memory on both nodes in MiB.
func (m *machine) memory(group, cpus string, node0, node1 int) {
	dir := "sys/fs/cgroup/" + group + "/"
	m.write(dir+"cgroup.controllers", "cpuset cpu memory\n")
	m.write(dir+"cpuset.cpus", "\n")
	m.write(dir+"cpuset.cpus.effective", cpus+"\n")
	m.write(dir+"cpuset.mems", "\n")
	m.write(dir+"cpuset.mems.effective", "0-1\n")
	m.write(dir+"memory.current", "0\n")
	m.write(dir+"memory.numa_stat", fmt.Sprintf("anon N0=%d N1=%d\n", node0<<20, node1<<20))
}

// asks writes the workload file of app with an annotation about its memory.
func (m *machine) asks(annotation string) {
	m.write("etc/workloads/app.yaml", fmt.Sprintf(`apiVersion: berth.dev/v1alpha1
kind: Workload
metadata: {name: app, annotations: {koordinator.sh/memoryLocality: '%s'}}
spec: {cgroup: app}
`, annotation))
}

// On a host without Kubernetes a workload opts in by annotation, for the CPUs that its administrator gave it. A changed
// annotation takes effect at once, and the agent reports an invalid one.
func TestWorkloadMovesItsMemory(t *testing.T) {
	inNodes(t, func(t *testing.T, m *machine, fake *moves) {
		m.memory(app, "2-3", 57, 43)
		m.asks(`{"policy":"bestEffort"}`)
		m.boot()
		m.run(15*time.Second, 0)
		n, o := fake.ordered()
		if n != 1 || o.Group != app || o.Local.String() != "1" || o.Rate != 256<<20 {
			t.Fatalf("%d orders, the last %+v", n, o)
		}
		m.memory(app, "2-3", 0, 100)
		fake.ends(mover.Report{Key: o.Key, Outcome: locality.Completed})
		m.run(2*time.Second, 0)
		for _, want := range []string{
			"MemoryLocalityCompleted", "Container app completed: migrated memory from remote numa: 0 to local numa: 1",
			"Total: 1 container(s) completed, 0 failed, 0 skipped; cur local memory ratio 100, rest remote memory pages 0",
		} {
			if m.told(want) != 1 {
				t.Errorf("%q is not in the log once", want)
			}
		}
		if s := m.status(); s.State != StateActive && s.State != "NoLimit" && s.State != "Off" || s.Sections["localize"] == nil {
			t.Errorf("status %s", m.statusJSON())
		}
		for _, bad := range []string{`{"policy":"fast"}`, `{"policy":"bestEffort","migrateIntervalMinutes":-1}`, `{"policy":"bestEffort","targetLocalityRatio":101}`} {
			before := m.told(v1alpha1.EventInvalidPolicy)
			m.asks(bad)
			m.run(15*time.Second, 0)
			if m.told(v1alpha1.EventInvalidPolicy) != before+1 {
				t.Errorf("%s is not reported once", bad)
			}
		}
		if n, _ := fake.ordered(); n != 1 {
			t.Errorf("%d orders with bad policies", n)
		}
		m.memory(app, "2-3", 57, 43)
		m.asks(`{"policy":"BestEffort"}`)
		m.run(15*time.Second, 0)
		if n, o := fake.ordered(); n != 2 {
			t.Errorf("%d orders with another annotation", n)
		} else {
			fake.ends(mover.Report{Key: o.Key, Outcome: locality.Failed, Err: fmt.Errorf("move pages of 7: %w", errors.Join(mover.ErrRights, syscall.EPERM))})
		}
		m.run(2*time.Second, 0)
		for _, want := range []string{"MemoryLocalityFailed", "CAP_SYS_PTRACE", "deploy/hostpid"} {
			if m.told(want) == 0 {
				t.Errorf("%q is not in the log", want)
			}
		}
		if err := m.stop(); err != nil {
			t.Error(err)
		}
		m.boot() // policy bestEffort moves once, also across agents
		m.run(30*time.Second, 0)
		if n, _ := fake.ordered(); n != 2 {
			t.Errorf("%d orders after a restart", n)
		}
		if err := m.stop(); err != nil {
			t.Error(err)
		}
	})
}

// The agent's file can opt a class in, and can switch memory locality off.
func TestClassOfTheFile(t *testing.T) {
	for file, want := range map[string]int{
		`resource-qos-config: {clusterStrategy: {lsClass: {memoryLocality: {policy: bestEffort}}}}`:                             1,
		`resource-qos-config: {clusterStrategy: {beClass: {memoryLocality: {policy: bestEffort}}}}`:                             0,
		"resource-qos-config: {clusterStrategy: {lsClass: {memoryLocality: {policy: bestEffort}}}}\nlocality: {enabled: false}": 0,
	} {
		inNodes(t, func(t *testing.T, m *machine, fake *moves) {
			m.write("etc/agent.yaml", "workloadDir: workloads\nstateDir: state\n"+file+"\n")
			m.memory(app, "2-3", 57, 43)
			m.write("etc/workloads/app.yaml", "apiVersion: berth.dev/v1alpha1\nkind: Workload\nmetadata: {name: app}\nspec: {cgroup: app}\n")
			m.boot()
			m.run(15*time.Second, 0)
			if n, _ := fake.ordered(); n != want {
				t.Errorf("%s: %d orders, want %d", file, n, want)
			}
			if err := m.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// pinnedPod runs a pod with exclusive CPUs whose memory is on both nodes.
func (m *machine) pinnedPod(annotations map[string]string, config string) {
	m.t.Helper()
	m.joins()
	c := m.controls
	annotations[v1alpha1.AnnotationCPUSetScheduler] = "true"
	p := &cluster.Pod{Key: "ns/p", Object: cluster.Object{Namespace: "ns", Name: "p", UID: "u"}, Pod: workload.Pod{
		Namespace: "ns", Name: "p", UID: "u", Annotations: annotations, Scheduled: 2000,
		Containers: []workload.Container{{Name: "redis", Resources: workload.Resources{CPURequest: 2000, CPULimit: 2000, MemoryLimit: 1 << 30}}},
	}}
	for _, group := range []string{"podp", "podp/box", "podp/c"} {
		m.addGroup(group, "max 100000")
		m.memory(group, "0-3", 100, 100)
	}
	m.memory("podp/c", "0-1", 100, 100)
	m.memory("podp/box", "2-3", 0, 0)
	c.mu.Lock()
	c.inventory.Take(&cluster.Snapshot{
		Generation: 1, PodsFrom: cluster.APIServer, Node: cluster.Node{UID: "n", AllocatableMilli: 4000}, Pods: []*cluster.Pod{p},
		ConfigMaps: strategy.Maps{strategy.BerthConfig: {strategy.KeyQOS: config}},
	})
	c.mu.Unlock()
	c.mu.Lock()
	if err := kubeletSays(c, kubelet.Reading{Whole: true}); err != nil {
		m.t.Error(err)
	}
	c.mu.Unlock()
	e := nri.Event{
		Pod:       nri.Pod{ID: "box", UID: "u", Namespace: "ns", Name: "p", CgroupParent: "podp", CgroupPath: "podp/box", Annotations: annotations},
		Container: nri.Container{ID: "c", PodID: "box", Name: "redis", CgroupPath: "podp/c"},
	}
	for _, kind := range []nri.Kind{nri.Synchronize, nri.RunPod, nri.Create, nri.Start} {
		one := e
		if one.Kind = kind; kind == nri.Synchronize {
			one = nri.Event{Kind: kind}
		}
		m.answers(one)
	}
}

// A pinned pod opts in by the seed's ConfigMap or by annotation. Berth narrows its memory nodes after its pages have
// moved, and those of other pinned pods at once.
func TestMemsFollowTheMemory(t *testing.T) {
	const class = `{
	  "clusterStrategy": {
	    "lsClass": {
	       "memoryLocality": {
	         "policy": "bestEffort"
	       }
	     }
	  }
	}`
	for name, c := range map[string]struct {
		annotations map[string]string
		config      string
		orders      int
	}{
		"annotation": {map[string]string{v1alpha1.AnnotationMemoryLocality: `{"policy": "BestEffort"}`}, `{}`, 1},
		"class":      {map[string]string{}, class, 1},
		"not asked":  {map[string]string{}, `{}`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inNodes(t, func(t *testing.T, m *machine, fake *moves) {
				m.boot()
				m.pinnedPod(c.annotations, c.config)
				m.run(15*time.Second, 0)
				n, o := fake.ordered()
				if n != c.orders || n > 0 && (o.Group != "podp/c" || o.Local.String() != "0") {
					t.Fatalf("%d orders, the last %+v", n, o)
				}
				mems := func() string { return m.read("sys/fs/cgroup/podp/c/cpuset.mems") }
				if got := mems(); (got == "0") != (n == 0) {
					t.Errorf("memory nodes %q while pages move", got)
				}
				if n > 0 {
					m.write("sys/fs/cgroup/podp/c/memory.numa_stat", fmt.Sprintf("anon N0=%d N1=0\n", 200<<20))
					fake.ends(mover.Report{Key: o.Key, Outcome: locality.Completed})
				}
				m.run(3*time.Second, 0)
				if got := mems(); got != "0" {
					t.Errorf("memory nodes %q after the pass", got)
				}
				if told := m.told("MemoryLocalityCompleted"); told != n {
					t.Errorf("reported %d times", told)
				}
				if m.told(v1alpha1.EventInvalidPolicy) > 0 || strings.Contains(m.log.String(), "agent: ") {
					t.Error("the agent complains")
				}
				if err := m.stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Memory that a pinned pod may still allocate on its node, up to its limit, is no room for a group that Berth would
// narrow to this node.
func TestRoomOfPinnedPods(t *testing.T) {
	inNodes(t, func(t *testing.T, m *machine, _ *moves) {
		var zones strings.Builder
		for node := range 2 {
			m.write(fmt.Sprintf("sys/devices/system/node/node%d/meminfo", node), fmt.Sprintf("Node %d MemTotal: 8388608 kB\nNode %d MemFree: 4194304 kB\n", node, node))
			fmt.Fprintf(&zones, "Node %d, zone   Normal\n  pages free     1048576\n        min      1000\n        low      1250\n        high     1500\n", node)
		}
		m.write("proc/zoneinfo", zones.String())
		m.boot()
		m.pinnedPod(map[string]string{}, `{}`)
		m.memory("other", "0-3", 0, 0)
		m.write("sys/fs/cgroup/other/cgroup.procs", "")
		m.write("sys/fs/cgroup/other/memory.max", fmt.Sprintf("%d\n", 3<<30))
		looks := narrowing.OnHost(m.controls.opts.Root, m.controls.host, m.controls.opts.Clock)
		m.controls.mu.Lock()
		m.controls.opts.narrowing = looks
		m.controls.mu.Unlock()
		m.run(3*time.Second, 0)
		for limit, want := range map[int]error{2 << 30: narrowing.ErrNoRoom, 512 << 20: nil} {
			m.write("sys/fs/cgroup/podp/c/cpuset.mems.effective", "0\n")
			m.write("sys/fs/cgroup/podp/c/memory.max", fmt.Sprintf("%d\n", limit))
			if err := looks.Within(t.Context())("other", cpuset.Set{}.Add(0)); !errors.Is(err, want) || (err == nil) != (want == nil) {
				t.Errorf("beside a pod that may take %d MiB: %v, want %v", limit>>20, err, want)
			}
		}
		if err := m.stop(); err != nil {
			t.Error(err)
		}
	})
}
