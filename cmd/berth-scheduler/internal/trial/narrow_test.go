package trial

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/berth-project/berth/internal/scheduler/schedule"
	"github.com/berth-project/berth/test/chance"
)

// shown is how many nodes a pinned pod is shown at its first try (mostBest of internal/scheduler/schedule).
const shown = 16

// caught returns a registry with Berth and stores the plugin that the scheduler makes in into.
func caught(into **schedule.Plugin) runtime.Registry {
	made := registry()
	return runtime.Registry{schedule.Name: func(ctx context.Context, args kuberuntime.Object, h fwk.Handle) (fwk.Plugin, error) {
		p, err := made[schedule.Name](ctx, args, h)
		*into, _ = p.(*schedule.Plugin)
		return p, err
	}}
}

// TestBestFirstAgreesWithTheFullSearch compares the nodes that a random pod is shown with a full search. Some nodes are
// full, cordoned, tainted, or of another pool. The shown nodes must be the best of all nodes that the shipped
// configuration's plugins allow, and as many as there are, up to the bound.
func TestBestFirstAgreesWithTheFullSearch(t *testing.T) {
	seed := chance.Seed()
	t.Logf("BERTH_SEED=%d", seed)
	s := &storm{cluster: newCluster(t), rand: rand.New(rand.NewPCG(seed, 4))}
	shapes := tights()[:3]
	const nodes = 40
	for i := range nodes {
		s.addMachine(name("n", i), shapes[i%len(shapes)])
	}
	var plugin *schedule.Plugin
	scheduler := s.build(t.Context(), configFrom(t, "testdata/without-leases.yaml"), caught(&plugin)) // no agent renews a Lease
	b := &byHand{Scheduler: scheduler, f: scheduler.Profiles[schedulerName], t: t}
	b.known()
	s.spoil(b, nodes)
	narrowed := 0
	for range setting("BERTH_STATES", 200) {
		infos, p := b.snapshot(), s.plain()
		state := framework.NewCycleState()
		result, status, _ := b.f.RunPreFilterPlugins(t.Context(), state, p)
		if !status.IsSuccess() {
			t.Fatalf("%s: PreFilter says %v", p.Name, status)
		}
		best := map[string]int64{}
		for _, n := range infos {
			if b.f.RunFilterPlugins(t.Context(), state, p, n).IsSuccess() {
				best[n.Node().Name], status = plugin.Score(t.Context(), state, p, n)
				if !status.IsSuccess() {
					t.Fatal(status)
				}
			}
		}
		if !result.AllNodes() {
			narrowed++
			expectBest(t, p, result.NodeNames.UnsortedList(), best)
		}
		if names := slices.Sorted(maps.Keys(best)); len(names) > 0 && s.rand.IntN(3) > 0 {
			b.bind(s, state, p, names[s.rand.IntN(len(names))])
		} else if len(names) == 0 {
			b.release(s)
		}
	}
	t.Logf("%d pods were shown their best nodes", narrowed)
	if narrowed < 50 {
		t.Fatalf("%d pods were shown their best nodes: too few to prove anything", narrowed)
	}
}

// expectBest compares the nodes that a pod is shown with the scores of all nodes on which it can run.
func expectBest(t *testing.T, p *v1.Pod, names []string, best map[string]int64) {
	t.Helper()
	if want := min(len(best), shown); len(names) != want {
		t.Fatalf("%s is shown %d nodes of %d it can run on, want %d", p.Name, len(names), len(best), want)
	}
	worst := int64(-1)
	for _, name := range names {
		score, fits := best[name]
		if !fits {
			t.Fatalf("%s is shown %s, where it cannot run", p.Name, name)
		}
		if worst < 0 || score < worst {
			worst = score
		}
		delete(best, name)
	}
	for name, score := range best {
		if score > worst {
			t.Fatalf("%s is shown a node with %d points and not %s with %d", p.Name, worst, name, score)
		}
	}
}

// spoil gives random nodes a pool, and some of them little memory, room for one pod, a taint, or a cordon. It waits
// until the scheduler has seen the pools.
func (s *storm) spoil(b *byHand, nodes int) {
	for i := range nodes {
		at := name("n", i)
		n, err := s.client.CoreV1().Nodes().Get(s.Context(), at, metav1.GetOptions{})
		if err != nil {
			s.Fatal(err)
		}
		n.TypeMeta = metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}
		n.Labels["pool"] = []string{"a", "b"}[s.rand.IntN(2)]
		switch s.rand.IntN(8) {
		case 0:
			n.Spec.Taints = []v1.Taint{{Key: "kept", Value: "x", Effect: v1.TaintEffectNoSchedule}}
		case 1:
			n.Spec.Unschedulable = true
		case 2:
			n.Status.Allocatable[v1.ResourceMemory] = resource.MustParse("2Gi")
		case 3:
			n.Status.Allocatable[v1.ResourcePods] = resource.MustParse("1")
		}
		s.addNode(n)
	}
	s.until("the scheduler knows the pools", func() bool {
		for _, n := range b.snapshot() {
			if n.Node().Labels["pool"] == "" {
				return false
			}
		}
		return true
	})
}

// plain returns a random pinned pod for which Berth may narrow the nodes: only its own answer, requests, taints and
// selectors decide.
func (s *storm) plain() *v1.Pod {
	for {
		p := s.any()
		if p.Annotations == nil {
			continue
		}
		p.UID = types.UID(p.Name)
		if s.rand.IntN(3) == 0 {
			p.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}}
		}
		if s.rand.IntN(3) == 0 {
			p.Spec.NodeSelector = map[string]string{"pool": "a"}
		}
		return p
	}
}

// picky is a plugin of another team. It accepts a pod only on an empty node.
type picky struct {
	mu    sync.Mutex
	asked map[string]int // number of calls, by pod
}

func (p *picky) Name() string { return "Picky" }

func (p *picky) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[pod.Name]++
	if len(info.GetPods()) > 0 {
		return fwk.NewStatus(fwk.Unschedulable, "node(s) were not empty")
	}
	return nil
}

func (p *picky) times(pod string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[pod]
}

// TestBestFirstEvictsNoPod covers a plugin, unknown to Berth, that refuses all best nodes of a pod. The plugin would
// accept such a node if a less important pod were evicted from it. No pod is evicted: the pod gets another node.
func TestBestFirstEvictsNoPod(t *testing.T) {
	c := newCluster(t)
	for i := range shown + 4 {
		c.addMachine(name("n", i), small())
	}
	cfg, other := configFrom(t, berthConfig), &picky{asked: map[string]int{}}
	all := &cfg.Profiles[0].Plugins.MultiPoint.Enabled
	*all = append(*all, config.Plugin{Name: other.Name()})
	plugins := registry()
	plugins[other.Name()] = func(context.Context, kuberuntime.Object, fwk.Handle) (fwk.Plugin, error) { return other, nil }
	c.schedule(cfg, plugins)
	want := []string{"high"}
	for i := range shown {
		low := name("low", i)
		c.create(pinned(low, 1, 4))
		c.bound(low)
		want = append(want, low)
	}
	c.create(prioritized(pinned("high", 1, 4), 50))
	c.bound("high")
	if got := c.names(); !slices.Equal(got, want) {
		t.Fatalf("left are %v, want %v", got, want)
	}
	if times := other.times("high"); times <= shown+4 {
		t.Fatalf("the other plugin was asked %d times: the pod was not shown its best nodes first", times)
	}
	c.audit()
}

// TestBestFirstLeavesSpreadingAlone checks that the pods of a Service are spread over the nodes, as kube-scheduler does
// by default. None of them is shown only its best nodes, because these are the nodes that already have such a pod.
func TestBestFirstLeavesSpreadingAlone(t *testing.T) {
	const nodes = shown + 4
	c := newCluster(t)
	for i := range nodes {
		c.addMachine(name("n", i), small())
	}
	if err := c.api.Put("/api/v1/services", "default", "web", &v1.Service{
		TypeMeta:   metav1.TypeMeta{Kind: "Service", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec:       v1.ServiceSpec{Selector: map[string]string{"app": "web"}},
	}); err != nil {
		t.Fatal(err)
	}
	c.begin()
	on := map[string]bool{}
	for i := range nodes {
		p := pinned(name("web", i), 1, 4)
		p.Labels = map[string]string{"app": "web"}
		c.create(p)
		on[c.bound(p.Name).Spec.NodeName] = true
	}
	if len(on) != nodes {
		t.Errorf("%d pods are on %d nodes", nodes, len(on))
	}
	c.audit()
}
