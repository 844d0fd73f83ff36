package place_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/node/observed"
)

const gpu = "example.com/gpu"

// withGPUs returns the facts of two(), with GPUs in each NUMA node.
func withGPUs(t testing.TB, each ...int64) place.Facts {
	t.Helper()
	f := two().facts(t)
	top := *f.Machine.Topology()
	top.Devices = []topology.Device{{Resource: gpu, Nodes: each}}
	var err error
	if f.Machine, err = alloc.Compile(&top); err != nil {
		t.Fatal(err)
	}
	return f
}

// gpus returns the pod with a request of GPUs.
func gpus(p workload.Pod, n int64) workload.Pod {
	p.Devices = []workload.Device{{Resource: gpu, Count: n}}
	return p
}

// A pod that the agent places again stays beside its GPUs. Pods without CPUs of their own use GPUs too.
func TestPlacedAnewBesideDevices(t *testing.T) {
	for _, c := range []struct {
		name   string
		gpus   []int64
		beside int64 // GPUs of an ordinary pod
		want   string
	}{
		{"the second node has them", []int64{0, 2}, 0, "4-7,12-15"},
		{"the first node has them", []int64{2, 0}, 0, "0-3,8-11"},
		{"the first node has too few left", []int64{2, 6}, 4, "4-7,12-15"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := place.New(withGPUs(t, c.gpus...))
			n.Pods.Put(gpus(plain("web", 1, app("nginx", 1)), c.beside))
			n.Pods.Put(placed(gpus(pod("model", 2, app("model", 2)), 2), "model", "900-901", "0")) // no such CPUs
			if got := create(t, n, "model", "model").Own[0]; !got.Pinned || !got.CPUs.IsSubsetOf(set(t, c.want)) {
				t.Errorf("CPUs %s, want some of %s", got.CPUs, c.want)
			}
		})
	}
}

// Memory that the kubelet gave to a pod without a placement counts in its NUMA nodes: not for that pod itself, and not
// once the pod has CPUs, since its placement says which memory it has.
func TestMemoryThatTheKubeletGave(t *testing.T) {
	for _, c := range []struct {
		name, of, mems string
	}{
		{"to nobody", "", "0"},
		{"to an ordinary pod", "ns/web", "1"},
		{"to the pod itself", "ns/redis", "0"},
		{"to a pod with CPUs", "ns/other", "0"},
		{"to a pod that the agent placed", "ns/own", "0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := two().facts(t)
			n := place.New(f)
			f.Given = map[string]placement.Given{
				c.of: placement.GivenBy(f.Machine.Topology(), []v1alpha1.KubeletMemory{{NUMANodes: "0", Bytes: 50 * gi}}),
			}
			n.SetFacts(f)
			n.Pods.Put(plain("web", 1, app("nginx", 1)))
			n.Pods.Put(placed(pod("other", 2, app("app", 1)), "app", "1", "0"))
			n.Pods.Put(pod("own", 2, app("app", 1)))
			create(t, n, "own", "app")
			redis := pod("redis", 3, app("redis", 2))
			redis.Containers[0].MemoryLimit = 20 * gi
			n.Pods.Put(redis)
			if got := create(t, n, "redis", "redis").Own[0]; got.Mems.String() != c.mems {
				t.Errorf("CPUs %s, mems %s, want mems %s", got.CPUs, got.Mems, c.mems)
			}
		})
	}
}

// TestDecidesLikeTheScheduler checks that agent and scheduler decide alike on equal facts, with devices, and memory that
// the kubelet gave.
func TestDecidesLikeTheScheduler(t *testing.T) {
	t.Parallel()
	both := 0
	rapid.Check(t, func(r *rapid.T) {
		f := withGPUs(t, rapid.Int64Range(0, 4).Draw(r, "first"), rapid.Int64Range(0, 4).Draw(r, "second"))
		f.Given = map[string]placement.Given{}
		s := paper{facts: f}
		n := place.New(f)
		for i := range rapid.IntRange(2, 7).Draw(r, "pods") {
			uid, asks := fmt.Sprintf("p%d", i), rapid.Bool().Draw(r, "asks")
			p := pod(uid, i, app("app", rapid.Int64Range(1, 5).Draw(r, "limit")))
			if !asks {
				p = plain(uid, i, app("app", 1))
			}
			memory := rapid.Int64Range(1, 40).Draw(r, "memory") * gi
			p.Containers[0].MemoryLimit, p.Containers[0].MemoryRequest, p.ScheduledMemory = memory, memory, memory
			p = gpus(p, rapid.Int64Range(0, 2).Draw(r, "gpus"))
			if !asks {
				if rapid.Bool().Draw(r, "given") {
					given := placement.GivenBy(f.Machine.Topology(), []v1alpha1.KubeletMemory{{NUMANodes: v1alpha1.CPUList(rapid.SampledFrom([]string{"0", "1"}).Draw(r, "node")), Bytes: memory}})
					f.Given["ns/"+uid] = given
					s.occupancy.AddGiven(given)
				}
				n.Pods.Put(p)
				s.count(p)
				continue
			}
			want, ok := s.decide(t, p)
			if known := placed(p, "app", want.CPUs, want.Mems); ok && rapid.Bool().Draw(r, "placed") {
				p = known
			}
			n.Pods.Put(p)
			own := create(t, n, uid, "app").Own
			if is := len(own) > 0 && own[0].Pinned; is != ok || is && (own[0].CPUs != set(t, want.CPUs) || own[0].Mems.String() != want.Mems) {
				r.Fatalf("pod %s: the scheduler has %t %+v, the agent %+v", uid, ok, want, own)
			}
			if !ok {
				n.Pods.Drop(uid)
				n.Pods.RemovePod(uid)
				continue
			}
			both++
			n.Pods.Observe(observed.Container{ID: uid + "/app", PodUID: uid, Name: "app", Phase: observed.Running, CPUs: own[0].CPUs, Given: own[0].CPUs, Pinned: true})
			s.take(t, placed(p, "app", want.CPUs, want.Mems))
		}
	})
	if both == 0 {
		t.Error("no pod has CPUs")
	}
}

// paper is the node as a scheduler counts it.
type paper struct {
	facts     place.Facts
	pods      []workload.Pod
	occupancy placement.Occupancy
}

func (s *paper) count(p workload.Pod) { s.pods = append(s.pods, p) }

// decide returns the part of the only container of a pod.
func (s *paper) decide(t *testing.T, p workload.Pod) (v1alpha1.ContainerPlacement, bool) {
	t.Helper()
	var all workload.Besides
	node := placement.Node{Machine: s.facts.Machine, AllocatableMilli: s.facts.AllocatableMilli}
	for _, one := range s.pods {
		node.RequestedMilli += one.Scheduled
		all.Add(one.Besides, 1)
	}
	node.RequestedMemory, node.RequestedHuge = all.ScheduledMemory, all.ScheduledHuge
	node.RequestedDevices = placement.CountDevices(s.facts.Machine.Topology(), all.Devices)
	ask := placement.AskOf(pinned(t, p))
	d, no := placement.Decide(new(alloc.Scratch), node, &s.occupancy, &ask)
	if !no.OK() {
		return v1alpha1.ContainerPlacement{}, false
	}
	return d.Annotation(&ask, hash).Containers["app"], true
}

// take counts a pod with its placement.
func (s *paper) take(t *testing.T, p workload.Pod) {
	t.Helper()
	held := placement.HeldBy(s.facts.Machine, pinned(t, p), p.Annotations[v1alpha1.AnnotationPlacement])
	if held.CPUs().IsEmpty() {
		t.Fatalf("placement %s is not valid", p.Annotations[v1alpha1.AnnotationPlacement])
	}
	s.occupancy.Add(s.facts.Machine, &held)
	s.count(p)
}

func pinned(t *testing.T, p workload.Pod) workload.Pinning {
	t.Helper()
	pin, problems := workload.PinningOf(p)
	if len(problems) > 0 || !pin.Wanted || !slices.Equal(pin.Besides.Devices, p.Devices) {
		t.Fatalf("%v: %+v", problems, pin)
	}
	return pin
}
