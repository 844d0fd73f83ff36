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

// storm is a cluster with random events.
type storm struct {
	*cluster
	rand      *rand.Rand
	scheduler *running
	nodes     *auditor
	made      int // pods created so far
	// faults is the percentage of bindings that fail. mu protects luck and faults.
	mu     sync.Mutex
	luck   *rand.Rand
	faults int
	// written is the node and placement of each bound pod as the test first saw them, by UID.
	written map[string]string
	done    map[string]int
}

func setting(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// TestStorm applies random events to a small cluster (BERTH_EVENTS, 1,000; make verify-storm: 1,000,000). Pods of all
// kinds are created, deleted, completed and evicted; bindings fail in all ways; schedulers die; the API server is away.
// After every event the auditor checks the promises, whatever requests are on the way at that moment. In the end the
// faults stop, and every pod that fits must be bound. BERTH_SEED repeats the random choices, but not the timing of
// concurrent events.
func TestStorm(t *testing.T) {
	events := setting("BERTH_EVENTS", 1000)
	if testing.Short() {
		events /= 5
	}
	if !t.Run("Few", func(t *testing.T) { runStorm(t, events, 1) }) {
		return // the second one might run into the time-out of the tests, which hides what the first one says
	}
	// Enough nodes that a pod is shown only the best of them.
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
		for j, one := range tights() {
			c.addMachine(fmt.Sprintf("n%d", i*len(tights())+j), one)
		}
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
	t.Logf("events: %v; memory of %d containers was bound", s.done, s.nodes.bindings)
}

// fault chooses the fault of one binding.
func (s *storm) fault(_, _ string) memapi.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.luck.IntN(100) >= s.faults {
		return memapi.None
	}
	return memapi.Refused + memapi.Fault(s.luck.IntN(int(memapi.Late)))
}

// judge audits the cluster, and checks that no bound pod's node or placement has changed since the test first saw it
// bound.
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

// event applies one random event.
func (s *storm) event() {
	s.apply([]chanceOf{
		{400, "create", s.come},
		{250, "delete", func() { s.some(func(p *v1.Pod) { s.remove(p.Name) }) }},
		{120, "complete", s.complete},
		{60, "terminate", s.terminate},
		{60, "reap", func() { s.api.Reap() }},
		{5, "restart", s.restart},
		{2, "away", s.away},
		{100, "wait", func() { time.Sleep(time.Duration(s.rand.IntN(10)) * time.Millisecond) }},
		{20, "agent", s.agentWrites},
	})
}

// chanceOf is a kind of event and how often it comes, compared with others.
type chanceOf struct {
	weight int
	name   string
	run    func()
}

// apply applies one of the events.
func (s *storm) apply(events []chanceOf) {
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

// mostPods is the maximum number of pods. It keeps the cost of an event constant in a long storm.
const mostPods = 150

// come creates a pod, or removes a pod if there are mostPods.
func (s *storm) come() {
	if len(s.pods()) < mostPods {
		s.create(s.any())
		return
	}
	s.some(func(p *v1.Pod) { s.remove(p.Name) })
}

// any returns a random pod of any kind.
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
	for i := range p.Spec.Containers {
		s.draw(&p.Spec.Containers[i].Resources)
	}
	return prioritized(p, int32(s.rand.IntN(4)))
}

// draw adds memory, huge pages and devices to what a container needs: none, some, or too much for one NUMA node. Some
// memory has no limit, and some limits are above the request.
func (s *storm) draw(r *v1.ResourceRequirements) {
	if r.Limits == nil {
		r.Limits = v1.ResourceList{}
	}
	set := func(list v1.ResourceList, name v1.ResourceName, n int64) {
		if n > 0 {
			list[name] = *resource.NewQuantity(n, resource.BinarySI)
		}
	}
	memory := []int64{0, 0, 256, 512, 1 << 10, 1 << 10, 2 << 10, 5 << 10}[s.rand.IntN(8)] * mi
	set(r.Requests, v1.ResourceMemory, memory/[]int64{1, 1, 2}[s.rand.IntN(3)])
	if s.rand.IntN(5) > 0 {
		set(r.Limits, v1.ResourceMemory, memory)
	}
	others := []struct {
		name   v1.ResourceName
		amount int64
	}{{"hugepages-1Gi", gi}, {"hugepages-1Gi", 2 * gi}, {"hugepages-2Mi", 128 * mi}, {"hugepages-2Mi", 384 * mi}, {card, 1}, {card, 2}}
	if i := s.rand.IntN(3 * len(others)); i < len(others) {
		set(r.Requests, others[i].name, others[i].amount)
		set(r.Limits, others[i].name, others[i].amount)
	}
}

func (s *storm) choose(p *v1.Pod, key string, percent int, values ...string) {
	if p.Annotations != nil && s.rand.IntN(100) < percent {
		p.Annotations[key] = values[s.rand.IntN(len(values))]
	}
}

// some calls run with a random pod, if there is one.
func (s *storm) some(run func(*v1.Pod)) {
	if pods := s.pods(); len(pods) > 0 {
		run(pods[s.rand.IntN(len(pods))])
	}
}

// complete changes the phase of a bound pod to Succeeded, Failed or Running. The pod stays stored until another event
// removes it.
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

// terminate marks a pod for deletion. Its containers remain, so its CPUs stay assigned.
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

// agentWrites makes an agent renew its Lease.
func (s *storm) agentWrites() { s.renew(fmt.Sprintf("n%d", s.rand.IntN(len(s.nodes.nodes))), 0) }

// renewAll makes every agent renew its Lease, because the Leases would expire during a long final phase.
func (s *storm) renewAll() {
	for name := range s.nodes.nodes {
		s.renew(name, 0)
	}
}

// calm stops the faults and checks that every pod is bound or has a reason for waiting.
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

// expectNobodyForgotten asks a new scheduler, which knows only the stored objects, whether one of the remaining pods
// would fit. If so, the old scheduler still reserves CPUs for bindings that may have taken effect. It must release
// these CPUs when no API server can still be processing the bindings. Each round that makes progress removes a pod.
func (s *storm) expectNobodyForgotten() {
	if len(s.pods()) == 0 {
		return
	}
	s.renewAll()
	other := s.byHand()
	other.known()
	var calm patience.Clock
	for idle := 0; ; time.Sleep(time.Second) {
		pods := s.pods()
		fit := other.fitting(pods)
		if fit == "" {
			return
		}
		if calm.Served() > longestHold && idle >= idleRounds {
			s.dump()
			s.Fatalf("%s would fit, and is not bound after %d rounds in which no pod was: %q", fit, idle, why(s.pod(fit)))
		}
		s.drain()
		if idle++; len(s.pods()) < len(pods) {
			idle = 0
		}
	}
}

const (
	// longestHold is more than the longest time for which an ambiguous bind holds CPUs: requestTimeout of
	// internal/scheduler/schedule, and the pause before its last look.
	longestHold = 90 * time.Second
	// idleRounds is the number of rounds without progress after which nothing is expected any more.
	idleRounds = 5
	// longestTry is how long the scheduler may bind neither the marker nor another pod.
	longestTry = 30 * time.Second
)

// fitting returns the name of a pod for which a node has room, "" if there is none.
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

// drain removes bound pods until no pod is bound: the remaining pods fit nowhere. In each round it waits for a marker
// pod that fits everywhere and has the lowest priority. The scheduler has tried all other pods when the marker is
// bound.
func (s *storm) drain() {
	for {
		s.renewAll()
		s.made++
		marker := fmt.Sprintf("marker-%d", s.made)
		s.create(prioritized(ordinary(marker, 0, 0), -1))
		s.tried(marker)
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

// tried waits until the marker is bound. If the scheduler tries other pods for ever, the test fails with their reasons.
func (s *storm) tried(marker string) {
	var idle patience.Clock
	for most := 0; ; time.Sleep(5 * time.Millisecond) {
		bound, waiting := 0, ""
		for _, p := range s.pods() {
			switch {
			case p.Spec.NodeName == "":
				waiting += fmt.Sprintf("\n%s: %q", p.Name, why(p))
			case p.Name == marker:
				return
			default:
				bound++
			}
		}
		if bound > most {
			most, idle = bound, patience.Clock{}
		}
		if idle.Served() > longestTry {
			s.Fatalf("%s is not bound, and no other pod was for %v:%s", marker, longestTry, waiting)
		}
	}
}
