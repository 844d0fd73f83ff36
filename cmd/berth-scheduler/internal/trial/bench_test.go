package trial

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/scheduler/schedule"
	"github.com/berth-project/berth/test/patience"
)

// large is the machine of the benchmarks: 256 CPUs in two NUMA nodes of eight L3 domains each. A domain has eight cores
// of two threads.
func large() shape { return shape{nodes: 2, l3: 8, cores: 8, threads: 2} }

// alone is one plugin in the real framework. The benchmark passes the nodes to it directly, so that nothing else runs
// at the same time.
type alone struct {
	testing.TB
	plugin *schedule.Plugin
	spec   v1alpha1.NodeTopologySpec
}

// newAlone starts a plugin that knows that many nodes, named by name("n", i).
func newAlone(t testing.TB, nodes int) *alone {
	t.Helper()
	a := &alone{TB: t, spec: large().spec(t)}
	f := &schedule.Factory{
		Register:   func(metrics.Registerable) error { return nil },
		Topologies: a.lister(nodes),
	}
	c := newCluster(t)
	cfg := configFrom(t, "testdata/without-leases.yaml")
	c.build(t.Context(), cfg, frameworkruntime.Registry{
		schedule.Name: func(ctx context.Context, args kuberuntime.Object, h fwk.Handle) (fwk.Plugin, error) {
			p, err := f.New(ctx, args, h)
			a.plugin, _ = p.(*schedule.Plugin)
			return p, err
		},
	})
	return a
}

// lister serves the topologies without keeping a copy, so that BenchmarkMemory measures only the plugin.
func (a *alone) lister(nodes int) cache.ListerWatcher {
	return &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (kuberuntime.Object, error) {
			list := &v1alpha1.NodeTopologyList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
			for i := range nodes {
				t := v1alpha1.NodeTopology{ObjectMeta: metav1.ObjectMeta{Name: name("n", i), ResourceVersion: "1"}, Spec: *a.spec.DeepCopy()}
				t.Status.PlacementVersions = []int64{v1alpha1.PlacementVersion}
				t.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionPinnable, Status: metav1.ConditionTrue}}
				list.Items = append(list.Items, t)
			}
			return list, nil
		},
		WatchFuncWithContext: func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
			if options.SendInitialEvents != nil {
				return nil, apierrors.NewBadRequest("lists are not streamed here")
			}
			return watch.NewFake(), nil
		},
	}
}

// placed returns a node with that many pinned pods of four CPUs each, packed from CPU 0.
func (a *alone) placed(on string, pods int) *framework.NodeInfo {
	var bound []*v1.Pod
	for i := range pods {
		p := uid(pinned(fmt.Sprintf("%s-%d", on, i), 1, 4), fmt.Sprintf("%s-%d", on, i))
		p.Spec.NodeName = on
		p.Annotations[v1alpha1.AnnotationPlacement] = v1alpha1.Placement{
			V: 1, Topology: a.spec.Hash, Containers: map[string]v1alpha1.ContainerPlacement{
				"app": {CPUs: fmt.Sprintf("%d-%d", 4*i, 4*i+3), Mems: "0", Policy: v1alpha1.PlacementExclusive},
			},
		}.Encode()
		bound = append(bound, p)
	}
	info := framework.NewNodeInfo(bound...)
	n := node(on, large().cpus())
	info.SetNode(n)
	return info
}

// state returns the cycle state of a pod after PreFilter.
func (a *alone) state(p *v1.Pod) fwk.CycleState {
	a.Helper()
	state := framework.NewCycleState()
	if _, status := a.plugin.PreFilter(a.Context(), state, p, nil); !status.IsSuccess() {
		a.Fatal(status)
	}
	return state
}

// ready waits until the plugin knows a node.
func (a *alone) ready(info fwk.NodeInfo) {
	a.Helper()
	p := uid(pinned("probe", 1, 1), "probe")
	err := patience.Until(a.Context(), 5*time.Millisecond, func() string {
		return a.plugin.Filter(a.Context(), a.state(p), p, info).Message()
	})
	if err != nil {
		a.Fatal(err)
	}
}

// BenchmarkFilter measures Filter on one node: with a remembered answer, and with a computed answer, as after a change
// of the node.
func BenchmarkFilter(b *testing.B) {
	a := newAlone(b, 1)
	info := a.placed(name("n", 0), 32)
	a.ready(info)
	// More generations of the same node than the plugin remembers answers for.
	others := make([]fwk.NodeInfo, 8)
	for i := range others {
		other := info.SnapshotConcrete()
		other.AddPod(uid(ordinary("o", 1, 0), "o"))
		others[i] = other
	}
	for _, c := range []struct {
		what string
		pod  *v1.Pod
		hit  bool
	}{
		{"pinned/hit", uid(pinned("p", 1, 8), "p"), true},
		{"pinned/miss", uid(pinned("p", 1, 8), "p"), false},
		{"ordinary/hit", uid(ordinary("q", 1000, 0), "q"), true},
		{"ordinary/miss", uid(ordinary("q", 1000, 0), "q"), false},
	} {
		b.Run(c.what, func(b *testing.B) {
			state, ctx := a.state(c.pod), b.Context()
			views := others
			if c.hit {
				views = others[:1]
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if status := a.plugin.Filter(ctx, state, c.pod, views[i%len(views)]); !status.IsSuccess() {
					b.Fatal(status)
				}
			}
		})
	}
	b.Run("score/hit", func(b *testing.B) {
		p := uid(pinned("p", 1, 8), "p")
		state, ctx := a.state(p), b.Context()
		b.ReportAllocs()
		for b.Loop() {
			if _, status := a.plugin.Score(ctx, state, p, info); !status.IsSuccess() {
				b.Fatal(status)
			}
		}
	})
}

// BenchmarkMemory reports the heap that the plugin uses: bytes per node that has only a topology, and additional bytes
// per placed container.
func BenchmarkMemory(b *testing.B) {
	const nodes, pods = 1000, 60
	for b.Loop() {
		none := newAlone(b, 1)
		infos := make([]*framework.NodeInfo, nodes)
		for i := range infos {
			infos[i] = none.placed(name("n", i), pods)
		}
		none.ready(infos[0])
		before := heap()
		many := newAlone(b, nodes)
		many.ready(infos[nodes-1].Snapshot())
		few := heap()
		base := newAlone(b, 1)
		base.ready(infos[0].Snapshot())
		empty := heap()
		b.ReportMetric((float64(few-before)-float64(empty-few))/(nodes-1), "B/node")

		p := uid(pinned("p", 1, 8), "p")
		state := many.state(p)
		start := heap()
		for _, info := range infos {
			if status := many.plugin.Filter(b.Context(), state, p, info); !status.IsSuccess() {
				b.Fatal(status)
			}
		}
		b.ReportMetric(float64(heap()-start)/(nodes*pods), "B/container")
		runtime.KeepAlive(none)
		runtime.KeepAlive(many)
		runtime.KeepAlive(base)
		runtime.KeepAlive(infos)
	}
}

// heap returns the live heap in bytes.
func heap() int64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
		time.Sleep(50 * time.Millisecond)
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
