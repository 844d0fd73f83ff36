package trial

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/cmd/berth-scheduler/internal/memapi"
	"github.com/berth-project/berth/test/chance"
	"github.com/berth-project/berth/test/patience"
)

// storm is a cluster to which things happen at random.
type storm struct {
	*cluster
	rand      *rand.Rand
	scheduler *running
	nodes     *auditor
	made      int // pods so far
	// faults is the share of bindings that fail, in percent.
	mu     sync.Mutex
	luck   *rand.Rand
	faults int
	// written is every pod's placement as it was first seen.
	written map[string]string
	done    map[string]int
}

func setting(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// TestStorm has a random sequence of events (BERTH_EVENTS, 1,000; make verify-storm: 1,000,000) happen to a
// small cluster: pods of all kinds are made, deleted, completed, evicted;
// bindings fail in all ways; schedulers die; the API server is away. After
// every event the promises hold, whatever is on the way at that moment; in the
// end, when faults stop, every pod that fits is bound. BERTH_SEED repeats the
// choices, though not the timing of what happens at the same time.
func TestStorm(t *testing.T) {
	events := setting("BERTH_EVENTS", 1000)
	if testing.Short() {
		events /= 5
	}
	t.Run("Few", func(t *testing.T) { runStorm(t, events, 1) })
	// So many nodes that pods are shown the best of them.
	t.Run("Many", func(t *testing.T) { runStorm(t, events/3, shown/4+1) })
}

func runStorm(t *testing.T, events, each int) {
	seed := chance.Seed()
	t.Logf("BERTH_SEED=%d", seed)
	c := newCluster(t)
	s := &storm{
		cluster: c, rand: rand.New(rand.NewPCG(seed, 1)), luck: rand.New(rand.NewPCG(seed, 2)),
		faults: setting("BERTH_FAULTS", 10), written: map[string]string{}, done: map[string]int{},
	}
	for i := range each {
		c.addMachine(fmt.Sprintf("n%d", 4*i), small())
		c.addMachine(fmt.Sprintf("n%d", 4*i+1), shape{nodes: 1, l3: 2, cores: 4, threads: 2, reserved: "0-1"})
		c.addMachine(fmt.Sprintf("n%d", 4*i+2), shape{nodes: 2, l3: 1, cores: 6, threads: 1})
		c.addMachine(fmt.Sprintf("n%d", 4*i+3), shape{nodes: 1, l3: 1, cores: 2, threads: 4})
	}
	s.api.FailBinds(s.fault)
	s.scheduler, s.nodes = c.begin(), c.auditor()
	for i := range events {
		s.event()
		if err := s.judge(); err != nil {
			s.dump()
			t.Fatalf("after event %d of seed %d: %v", i, seed, err)
		}
	}
	s.calm()
	t.Logf("events: %v", s.done)
}

// fault decides the fate of one binding.
func (s *storm) fault(_, _ string) memapi.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.luck.IntN(100) >= s.faults {
		return memapi.None
	}
	return memapi.Refused + memapi.Fault(s.luck.IntN(int(memapi.Late)))
}

// judge holds the cluster against the promises, and every placement against
// what it was when the pod was bound.
func (s *storm) judge() error {
	pods := s.pods()
	if err := s.nodes.check(pods); err != nil {
		return err
	}
	for _, p := range pods {
		if p.Spec.NodeName == "" {
			continue
		}
		key, now := string(p.UID), p.Spec.NodeName+p.Annotations[v1alpha1.AnnotationPlacement]
		if was, found := s.written[key]; found && was != now {
			return fmt.Errorf("pod %s was bound as %s and is now %s", p.Name, was, now)
		}
		s.written[key] = now
	}
	return nil
}

// event has one thing happen.
func (s *storm) event() {
	events := []struct {
		weight int
		name   string
		run    func()
	}{
		{400, "create", s.come},
		{250, "delete", func() { s.some(func(p *v1.Pod) { s.remove(p.Name) }) }},
		{120, "complete", s.complete},
		{60, "terminate", s.terminate},
		{60, "reap", func() { s.api.Reap() }},
		{5, "restart", s.restart},
		{2, "away", s.away},
		{100, "wait", func() { time.Sleep(time.Duration(s.rand.IntN(10)) * time.Millisecond) }},
		{20, "agent", s.agentWrites},
	}
	sum := 0
	for _, e := range events {
		sum += e.weight
	}
	at := s.rand.IntN(sum)
	for _, e := range events {
		if at -= e.weight; at < 0 {
			s.done[e.name]++
			e.run()
			return
		}
	}
}

// mostPods is how many pods there are at most, so that each event of a long storm costs as much.
const mostPods = 150

// come makes a pod, or where there are many removes one.
func (s *storm) come() {
	if len(s.pods()) < mostPods {
		s.create(s.any())
		return
	}
	s.some(func(p *v1.Pod) { s.remove(p.Name) })
}

// any is a pod of any kind.
func (s *storm) any() *v1.Pod {
	s.made++
	limit := []int64{1, 2, 2, 3, 4, 4, 4, 6, 8}[s.rand.IntN(9)]
	n := fmt.Sprintf("p%d", s.made)
	var p *v1.Pod
	switch s.rand.IntN(4) {
	case 0:
		n = "ordinary-" + n
		p = ordinary(n, 500*(1+s.rand.Int64N(6)), 0)
	case 1:
		p = pinned(n, limit, limit)
	default:
		p = pinned(n, 1+s.rand.Int64N(limit), limit)
	}
	s.choose(p, v1alpha1.AnnotationCPUPolicy, 10, "static-burst")
	s.choose(p, v1alpha1.AnnotationNUMATopologySpec, 20, singleNode, `{"numaTopologyPolicy":"Restricted"}`, `{"singleNUMANodeExclusive":"Preferred"}`)
	s.choose(p, v1alpha1.AnnotationResourceSpec, 30, `{"requiredCPUBindPolicy":"FullPCPUs"}`, `{"preferredCPUBindPolicy":"SpreadByPCPUs"}`,
		`{"requiredCPUExclusivePolicy":"PCPULevel"}`, `{"preferredCPUExclusivePolicy":"PCPULevel"}`, `{"preferredCPUExclusivePolicy":"NUMANodeLevel"}`)
	if p.Annotations != nil && s.rand.IntN(5) == 0 {
		second := *p.Spec.Containers[0].DeepCopy()
		second.Name = "second"
		second.Resources.Limits[v1.ResourceCPU] = resource.MustParse([]string{"1", "2", "1500m"}[s.rand.IntN(3)])
		second.Resources.Requests[v1.ResourceCPU] = resource.MustParse("250m")
		p.Spec.Containers = append(p.Spec.Containers, second)
	}
	return prioritized(p, int32(s.rand.IntN(4)))
}

func (s *storm) choose(p *v1.Pod, key string, percent int, values ...string) {
	if p.Annotations != nil && s.rand.IntN(100) < percent {
		p.Annotations[key] = values[s.rand.IntN(len(values))]
	}
}

// some runs a function on any pod.
func (s *storm) some(run func(*v1.Pod)) {
	if pods := s.pods(); len(pods) > 0 {
		run(pods[s.rand.IntN(len(pods))])
	}
}

// complete ends a pod of its own accord; the real server keeps it, and later
// a client removes it.
func (s *storm) complete() {
	s.some(func(p *v1.Pod) {
		if p.Spec.NodeName == "" || p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
			return
		}
		p = p.DeepCopy()
		p.Status.Phase = []v1.PodPhase{v1.PodSucceeded, v1.PodFailed, v1.PodRunning}[s.rand.IntN(3)]
		_, _ = s.client.CoreV1().Pods(p.Namespace).UpdateStatus(s.Context(), p, metav1.UpdateOptions{})
	})
}

// terminate marks a pod for deletion; its containers, and its CPUs, remain.
func (s *storm) terminate() {
	s.some(func(p *v1.Pod) {
		s.api.KeepTerminating(true)
		_ = s.client.CoreV1().Pods(p.Namespace).Delete(s.Context(), p.Name, metav1.DeleteOptions{})
	})
}

func (s *storm) restart() {
	s.scheduler.kill()
	s.scheduler = s.begin()
}

func (s *storm) away() {
	s.api.Away(true)
	time.Sleep(time.Duration(s.rand.IntN(50)) * time.Millisecond)
	s.api.Away(false)
}

// agentWrites has an agent renew its lease and publish its topology again.
func (s *storm) agentWrites() { s.renew(fmt.Sprintf("n%d", s.rand.IntN(len(s.nodes.nodes))), 0) }

// renewAll has every agent renew its lease: those of a long end would else run out.
func (s *storm) renewAll() {
	for name := range s.nodes.nodes {
		s.renew(name, 0)
	}
}

// calm ends the faults and expects that every pod is bound or says why not.
func (s *storm) calm() {
	s.mu.Lock()
	s.faults = 0
	s.mu.Unlock()
	s.api.KeepTerminating(false)
	s.api.Reap()
	s.renewAll()
	s.until("every pod is bound or says why not", func() bool {
		for _, p := range s.pods() {
			if p.Spec.NodeName == "" && why(p) == "" {
				return false
			}
		}
		return true
	})
	s.drain()
	s.expectNobodyForgotten()
	if err := s.judge(); err != nil {
		s.Fatal(err)
	}
}

// expectNobodyForgotten asks a new scheduler, which knows of nothing but what is
// stored, whether any of the pods that are left would fit. If so the old one
// still holds CPUs for bindings that may have gone through; it must give them
// up when no API server can be working on them any more.
func (s *storm) expectNobodyForgotten() {
	if len(s.pods()) == 0 {
		return
	}
	s.renewAll()
	other := s.byHand()
	other.known()
	err := patience.Until(s.Context(), time.Second, func() string {
		fit := other.fitting(s.pods())
		if fit == "" {
			return ""
		}
		s.drain()
		return fit + " would fit, and is not bound"
	})
	if err != nil {
		s.dump()
		s.Fatal(err)
	}
}

// fitting returns the name of one of the pods that a node has room for.
func (b *byHand) fitting(pods []*v1.Pod) string {
	nodes := b.snapshot()
	for _, p := range pods {
		state, status := b.cycle(p)
		for _, n := range nodes {
			if status.IsSuccess() && b.f.RunFilterPlugins(b.t.Context(), state, p, n).IsSuccess() {
				return p.Name
			}
		}
	}
	return ""
}

// drain removes what is bound until nothing is: what is left can be bound
// nowhere. The pod that marks the end fits everywhere and has the lowest priority: all
// others were tried when it is bound.
func (s *storm) drain() {
	for {
		s.renewAll()
		s.made++
		marker := fmt.Sprintf("marker-%d", s.made)
		s.create(prioritized(ordinary(marker, 0, 0), -1))
		s.bound(marker)
		s.remove(marker)
		none := true
		for _, p := range s.pods() {
			if p.Spec.NodeName != "" {
				s.remove(p.Name)
				none = false
			}
		}
		if none {
			return
		}
	}
}
