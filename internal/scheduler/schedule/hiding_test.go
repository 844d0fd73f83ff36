package schedule

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/intent/kubepod"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// list returns the nodes of the snapshot as the framework passes them: the same slice for as long as the nodes are the
// same.
func (c *cluster) list() []fwk.NodeInfo {
	var now []fwk.NodeInfo
	for _, name := range slices.Sorted(maps.Keys(c.handle.snapshot)) {
		now = append(now, c.handle.snapshot[name])
	}
	if !slices.Equal(c.nodes, now) {
		c.nodes = now
	}
	return c.nodes
}

// ask asks Filter about a node, with its nominated pods and without, as the framework does. If the pod skips Filter, ask
// answers as NodeResourcesFit does, and checks that Filter would have agreed: the skip must never change an answer.
func (c *cluster) ask(a *attempt, node *fakeNode, skips bool) *fwk.Status {
	var nominated []*v1.Pod
	for _, other := range c.handle.nominees[node.node.Name] {
		if other.UID != a.pod.UID && corev1helpers.PodPriority(other) >= corev1helpers.PodPriority(a.pod) {
			nominated = append(nominated, other)
		}
	}
	if len(nominated) > 0 {
		if state, with := c.nominate(a.state, a.pod, node, nominated...); !c.askOnce(a, state, with, skips).IsSuccess() {
			return fwk.NewStatus(fwk.Unschedulable, "nominated pods")
		}
	}
	return c.askOnce(a, a.state, node, skips)
}

func (c *cluster) askOnce(a *attempt, state fwk.CycleState, node *fakeNode, skips bool) *fwk.Status {
	status := c.plugin.Filter(c.ctx, state, a.pod, node)
	if !skips {
		return status
	}
	c.skipped.Add(1)
	request := kubepod.Scheduled(a.pod)
	if free := node.allocatable.milli - node.requested.milli; request > 0 && request > free {
		return fwk.NewStatus(fwk.Unschedulable, "Insufficient cpu")
	}
	if !status.IsSuccess() {
		c.t.Errorf("pod %s skips Filter, which refuses node %s: %s", a.pod.Name, node.node.Name, status.Message())
	}
	return nil
}

// counted fails unless the counter of nodes with hidden CPUs is exact.
func (c *cluster) counted() {
	c.t.Helper()
	core, want := c.plugin.core, int64(0)
	for _, n := range core.nodes.all() {
		n.mu.Lock()
		if n.hides() {
			want++
		}
		n.mu.Unlock()
	}
	core.hiding.mu.Lock()
	defer core.hiding.mu.Unlock()
	if got := int64(len(core.hiding.nodes)); got != want {
		c.t.Errorf("%d nodes are counted as hiding CPUs, %d do", got, want)
	}
}

// skips reports whether an ordinary pod skips Filter that requests all that a node has left.
func (c *cluster) skips() bool {
	c.look()
	most := int64(1)
	for _, node := range c.handle.snapshot {
		most = max(most, node.allocatable.milli-node.requested.milli)
	}
	return c.skipsFor(fmt.Sprint(most, "m"))
}

// looks reports whether an ordinary pod may depend on more than requests: PreFilter looks at a node, or leaves all nodes
// to Filter.
func (c *cluster) looks() bool {
	c.look()
	c.plugin.whereHidden(c.list())
	where := c.plugin.whereHidden(c.list())
	return where.end != complete || len(where.spots)+len(where.nominated) > 0
}

// skipsFor reports whether an ordinary pod with this request skips Filter. After a change the first cycle may be in doubt.
func (c *cluster) skipsFor(request string) bool {
	c.look()
	pod := c.spec("probe", 1, requesting(request), func(p *v1.Pod) { p.Annotations = nil })
	_, first := c.plugin.PreFilter(c.ctx, newState(), pod, c.list())
	_, status := c.plugin.PreFilter(c.ctx, newState(), pod, c.list())
	if first.IsSkip() && !status.IsSkip() {
		c.t.Error("skips Filter, and not once more")
	}
	return status.IsSkip()
}

// Filter is not skipped while the accounting rule can count more than the requests. The skip returns when the cause is
// gone.
func TestWhatHides(t *testing.T) {
	hidden := annotated(v1alpha1.AnnotationPlacement, `{"v":1,"topology":"`+machine().Hash()+
		`","containers":{"app":{"cpus":"0-3","mems":"0","policy":"exclusive"}}}`)
	off := annotated(v1alpha1.AnnotationCPUSetScheduler, "false")
	there := func(p *v1.Pod) { p.Spec.NodeName = "n1" }
	for name, test := range map[string]struct {
		options []option
		hides   bool
	}{
		"plain, pending":             {nil, false},
		"plain, bound":               {[]option{there, hidden}, false},
		"no placement, bound":        {[]option{there}, false},
		"low request, pending":       {[]option{requesting("1")}, false},
		"low request, other profile": {[]option{requesting("1"), func(p *v1.Pod) { p.Spec.SchedulerName = "other" }}, true},
		"low request, bound":         {[]option{there, hidden, requesting("1")}, true},
		"low request, no placement":  {[]option{there, requesting("1")}, true},
		"keys taken back":            {[]option{there, hidden, off, requesting("1")}, true},
		"keys that say nothing":      {[]option{off, requesting("1")}, false},
		"bad keys":                   {[]option{annotated(v1alpha1.AnnotationCPUSetScheduler, "yes"), requesting("1")}, false},
		"cores for itself":           {[]option{there, annotated(resourceSpec, `{"preferredCPUExclusivePolicy":"PCPULevel"}`)}, true},
		"resized":                    {[]option{there, hidden, func(p *v1.Pod) { p.Generation = 2 }}, true},
		"a class, and a low request": {[]option{there, requesting("1"), func(p *v1.Pod) { p.Annotations, p.Labels = nil, map[string]string{v1alpha1.LabelQoSClass: "LSR"} }}, true},
		"static burst": {[]option{there, annotated(v1alpha1.AnnotationCPUPolicy, "static-burst"), func(p *v1.Pod) {
			list := v1.ResourceList{v1.ResourceCPU: quantity("2500m")}
			p.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: list, Limits: list}
		}}, true},
		"an init container": {[]option{there, requesting("1"), func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{Name: "init", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: quantity("4")}}}}
		}}, false},
		"an ordinary sidecar": {[]option{there, func(p *v1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "log", Resources: v1.ResourceRequirements{
				Limits: v1.ResourceList{v1.ResourceCPU: quantity("500m")}, Requests: v1.ResourceList{v1.ResourceCPU: quantity("100m")},
			}})
		}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
				c.node("n1")
				if !c.skips() {
					t.Fatal("nothing is there, and an ordinary pod does not skip Filter")
				}
				pod := c.pod("a", 4, test.options...)
				if got := c.looks(); got != test.hides {
					t.Errorf("hides CPUs: %t, want %t", got, test.hides)
				}
				c.remove(pod)
				time.Sleep(3 * sweepEvery)
				if !c.skips() {
					t.Error("hides CPUs after its end")
				}
				c.counted()
			})
		})
	}
}

// The allocatable CPUs of a node may include CPUs that run no containers.
func TestNodeThatOffersTooMuch(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		expect := func(want bool, when string) {
			t.Helper()
			c.settle()
			if got := c.skips(); got != want {
				t.Errorf("%s: an ordinary pod skips Filter: %t, want %t", when, got, want)
			}
			c.counted()
		}
		small := machine()
		small.Reserved = must(cpuset.Parse("0,16"))(t)
		c.topology("n1", small)
		expect(false, "32 offered, 30 for containers")
		c.offer("n1", "30")
		expect(true, "30 of 30")
		c.offer("n1", "30500m")
		expect(false, "30.5 of 30")
		c.topology("n1", machine())
		expect(true, "30.5 of 32")
		c.topology("n1", small)
		expect(false, "30.5 of 30 again")
		if err := c.client.CoreV1().Nodes().Delete(c.ctx, "n1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		expect(true, "no node")
		c.bareNode("n1")
		expect(false, "the node again, with 32 of 30")
		c.source.remove("n1")
		expect(true, "no topology")
	})
}

// The scheduler starts when its own handlers have processed the first lists. The plugin's handlers may be behind, so
// Filter must not be skipped yet.
func TestSkipsNothingBeforeTheFirstLists(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		small := machine()
		small.Reserved = must(cpuset.Parse("0,16"))(t)
		c.topology("n1", small)
		c.settle()
		c.begin()
		if c.skips() {
			t.Error("skips Filter before it knows that 32 CPUs are offered, 30 for containers")
		}
	})
}

// offer changes the allocatable CPUs of a node.
func (c *cluster) offer(name, cpus string) {
	c.t.Helper()
	node := must(c.client.CoreV1().Nodes().Get(c.ctx, name, metav1.GetOptions{}))(c.t).DeepCopy()
	node.Status.Allocatable[v1.ResourceCPU] = resource.MustParse(cpus)
	must(c.client.CoreV1().Nodes().Update(c.ctx, node, metav1.UpdateOptions{}))(c.t)
	c.settle()
}

// TestSkipChangesNoAnswer runs random histories, with two nodes and with many that hide CPUs. In every state it asks
// about pods whose requests just fit: if such a pod skips Filter, Filter must agree with NodeResourcesFit, which
// cluster.ask checks.
func TestSkipChangesNoAnswer(t *testing.T) {
	for _, test := range []struct{ seeds, steps, hiding int }{{8, 250, 0}, {3, 120, 40}} {
		if testing.Short() {
			test.seeds, test.steps = (test.seeds+2)/3, test.steps/2
		}
		quiet := 0
		for seed := range test.seeds {
			t.Run(fmt.Sprint("seed ", seed, ", hiding ", test.hiding), func(t *testing.T) {
				inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
					c.node("n1")
					c.node("n2")
					c.hidingNodes(test.hiding)
					h := &skipHistory{cluster: c, random: rand.New(rand.NewPCG(uint64(seed), 11)), hiding: test.hiding}
					for step := range test.steps {
						h.step(fmt.Sprint("p", step))
						before := c.skipped.Load()
						h.probe()
						if c.skipped.Load() > before {
							quiet++
						}
						c.counted()
						if t.Failed() {
							t.Fatalf("step %d", step)
						}
					}
				})
			})
		}
		if all := test.seeds * test.steps; quiet < all/10 || quiet > all*9/10 {
			t.Errorf("Filter is skipped in %d of %d states: the histories say little", quiet, all)
		}
	}
}

type skipHistory struct {
	*cluster

	random *rand.Rand
	hiding int
}

// probe asks about pods that request exactly what a node has left, and about one that requests less.
func (h *skipHistory) probe() {
	h.look()
	names := []string{"n1", "n2"}
	if h.hiding > 0 {
		names = append(names, h.someNode())
		h.request(fmt.Sprint(1 + h.random.IntN(30)))
	}
	for _, name := range names {
		node := h.handle.snapshot[name]
		if left := node.allocatable.milli - node.requested.milli; left > 0 {
			h.request(fmt.Sprint(left, "m"))
		}
	}
}

func (h *skipHistory) request(request string) {
	h.filter(h.spec("probe", 1, requesting(request), func(p *v1.Pod) { p.Annotations = nil }))
}

// nominateSome has a random unbound pod nominated: in a cycle, which the informer shows later or never, or by another
// program; or it ends the nomination.
func (h *skipHistory) nominateSome() {
	pod := h.some()
	if pod == nil || pod.Spec.NodeName != "" || kubepod.Complete(pod) {
		return
	}
	node, show := h.someNode(), h.random.IntN(3) > 0
	switch h.random.IntN(4) {
	case 0:
		show = true
	case 1:
		h.filter(pod)
		node = ""
	default:
		h.filter(pod)
	}
	h.nominateFor(pod.UID, node, pod)
	if show {
		h.update(pod, func(p *v1.Pod) { p.Status.NominatedNodeName = node })
	}
}

// nominateFor sets the node that a pod is nominated for, "" for none.
func (h *skipHistory) nominateFor(uid types.UID, node string, pod *v1.Pod) {
	for name, pods := range h.handle.nominees {
		h.handle.nominees[name] = slices.DeleteFunc(pods, func(p *v1.Pod) bool { return p.UID == uid })
	}
	if node == "" {
		return
	}
	if h.handle.nominees == nil {
		h.handle.nominees = map[string][]*v1.Pod{}
	}
	h.handle.nominees[node] = append(h.handle.nominees[node], pod)
}

// follow does what the scheduling queue does with the informer's events: it forgets the nominations of pods that are
// bound or gone, and has the present objects of all others.
func (h *skipHistory) follow() {
	now := map[types.UID]*v1.Pod{}
	pods := must(h.client.CoreV1().Pods("").List(h.ctx, metav1.ListOptions{}))(h.t).Items
	for i := range pods {
		if pods[i].Spec.NodeName == "" && !kubepod.Complete(&pods[i]) && h.assumed[pods[i].UID] == nil {
			now[pods[i].UID] = &pods[i]
		}
	}
	for name, nominated := range h.handle.nominees {
		var left []*v1.Pod
		for _, pod := range nominated {
			if present := now[pod.UID]; present != nil {
				left = append(left, present)
			}
		}
		h.handle.nominees[name] = left
	}
}

// retry schedules a random unbound pod.
func (h *skipHistory) retry() {
	if pod := h.some(); pod != nil && pod.Spec.NodeName == "" && !kubepod.Complete(pod) {
		h.schedule(pod)
	}
}

func (h *skipHistory) step(name string) {
	defer h.follow()
	switch n := h.random.IntN(100); {
	case n < 30:
		h.arrive(name)
	case n < 36:
		h.retry()
	case n < 42:
		h.nominateSome()
	case n < 68:
		h.leave()
	case n < 76:
		h.rewrite()
	case n < 80:
		h.offer(h.someNode(), []string{"30", "32", "32", "33"}[h.random.IntN(4)])
	case n < 86:
		t := machine()
		if h.random.IntN(3) == 0 {
			t.Reserved = must(cpuset.Parse("0,16"))(h.t)
		}
		h.topology(h.someNode(), t)
		h.settle()
	case n < 90:
		h.start()
		for _, object := range h.handle.informers.Core().V1().Pods().Informer().GetStore().List() {
			if pod := object.(*v1.Pod); pod.Status.NominatedNodeName != "" {
				h.nominateFor(pod.UID, pod.Status.NominatedNodeName, pod)
			}
		}
	default:
		time.Sleep(2 * sweepEvery)
		h.settle()
	}
}

func (h *skipHistory) someNode() string {
	if h.hiding > 0 && h.random.IntN(2) == 0 {
		return fmt.Sprint("h", h.random.IntN(h.hiding))
	}
	return []string{"n1", "n2"}[h.random.IntN(2)]
}

// arrive creates a pod of a random kind, which this or another scheduler binds.
func (h *skipHistory) arrive(name string) {
	options := [][]option{
		nil, nil, nil, nil, nil, nil,
		{requesting("500m")},
		{annotated(resourceSpec, `{"requiredCPUExclusivePolicy":"PCPULevel"}`)},
		{annotated(v1alpha1.AnnotationCPUSetScheduler, "yes"), requesting("1")},
	}
	chosen := options[h.random.IntN(len(options))]
	if h.random.IntN(4) == 0 {
		h.pod(name, 1+h.random.IntN(4), append(slices.Clone(chosen), func(p *v1.Pod) { p.Spec.NodeName = h.someNode() })...)
		return
	}
	var pod *v1.Pod
	if h.random.IntN(3) == 0 {
		pod = h.ordinary(name, fmt.Sprint(1+h.random.IntN(4)))
	} else {
		pod = h.pod(name, 1+h.random.IntN(4), chosen...)
	}
	switch h.random.IntN(8) {
	case 0:
		h.fault = func(*v1.Binding) (bool, error) { return true, context.DeadlineExceeded }
	case 1:
		h.fault = func(*v1.Binding) (bool, error) { return false, errors.New("EOF") }
	case 2:
		return // the pod stays pending
	}
	h.schedule(pod)
	h.fault = nil
}

func (h *skipHistory) some() *v1.Pod {
	pods := must(h.client.CoreV1().Pods("").List(h.ctx, metav1.ListOptions{}))(h.t).Items
	if len(pods) == 0 {
		return nil
	}
	return &pods[h.random.IntN(len(pods))]
}

// leave completes or deletes a random pod.
func (h *skipHistory) leave() {
	switch pod := h.some(); {
	case pod == nil:
	case h.random.IntN(3) == 0:
		h.update(pod, func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded })
	default:
		h.remove(pod)
	}
}

// rewrite changes the annotations or the size of a random pod.
func (h *skipHistory) rewrite() {
	pod := h.some()
	if pod == nil {
		return
	}
	h.update(pod, func(p *v1.Pod) {
		switch h.random.IntN(4) {
		case 0:
			delete(p.Annotations, v1alpha1.AnnotationCPUSetScheduler)
		case 1:
			p.Annotations = maps.Clone(p.Annotations)
			if p.Annotations == nil {
				p.Annotations = map[string]string{}
			}
			p.Annotations[v1alpha1.AnnotationCPUSetScheduler] = "true"
		case 2:
			delete(p.Annotations, v1alpha1.AnnotationPlacement)
		default:
			p.Generation++
			requesting("1500m")(p)
		}
	})
}

// TestSkipRaces reserves, binds and unreserves from many goroutines. A goroutine that holds a reservation with hidden
// CPUs must see no skip at once, and the counters must agree in the end.
func TestSkipRaces(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		for i := range 4 {
			c.node(fmt.Sprint("n", i))
		}
		c.hidingNodes(40)
		c.pod("waiting", 8, requesting("1"))
		c.look()
		rounds := 200
		if testing.Short() {
			rounds = 40
		}
		var group sync.WaitGroup
		for worker := range 4 {
			w := &racer{cluster: c, name: fmt.Sprint("n", worker), list: c.list(), hash: machine().Hash()}
			for i, round := range []func(int, types.UID){w.reserves, w.binds, w.rebuilds, w.asks, w.waits} {
				group.Go(func() {
					for n := range rounds {
						round(n, types.UID(fmt.Sprint(worker, "-", i, "-", n)))
					}
				})
			}
		}
		group.Wait()
		c.counted()
		if !c.skipsFor("24") {
			t.Error("all pods but those of the other nodes are gone, and ordinary pods do not skip Filter")
		}
	})
}

// racer works on one node.
type racer struct {
	*cluster

	name, hash string
	list       []fwk.NodeInfo
}

// named returns a pod with the given name and UID that requests less than its limit.
func (r *racer) named(uid types.UID) *v1.Pod {
	list := func(cpus string) v1.ResourceList { return v1.ResourceList{v1.ResourceCPU: quantity(cpus)} }
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: string(uid), UID: uid, Generation: 1,
			Annotations: map[string]string{v1alpha1.AnnotationCPUSetScheduler: "true"},
		},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app", Resources: v1.ResourceRequirements{
			Requests: list("1"), Limits: list("2"),
		}}}},
	}
}

// skipsNow reports whether an ordinary pod would skip Filter now without a look at the node.
func (r *racer) skipsNow() bool {
	where := r.plugin.whereHidden(r.list)
	return where.end == complete && !slices.ContainsFunc(where.spots, func(s spot) bool { return s.node.name == r.name })
}

func (r *racer) reserves(_ int, uid types.UID) {
	pod, state := r.named(uid), newState()
	r.plugin.PreFilter(r.ctx, state, pod, r.list)
	for _, info := range r.list {
		r.plugin.Filter(r.ctx, state, pod, info)
		r.plugin.Score(r.ctx, state, pod, info)
	}
	if r.plugin.Reserve(r.ctx, state, pod, r.name).IsSuccess() && r.skipsNow() {
		r.t.Error("ordinary pods skip Filter beside a reservation that hides CPUs")
	}
	r.plugin.Unreserve(r.ctx, state, pod, r.name)
	r.plugin.core.dropRecord(r.name, uid)
}

func (r *racer) binds(_ int, uid types.UID) {
	pod := r.named(uid)
	pod.Spec.NodeName = r.name
	pod.Annotations[v1alpha1.AnnotationPlacement] = `{"v":1,"topology":"` + r.hash +
		`","containers":{"app":{"cpus":"0-1","mems":"0","policy":"exclusive"}}}`
	r.plugin.core.onPod(nil, pod)
	if r.skipsNow() {
		r.t.Error("ordinary pods skip Filter beside a bound pod that hides CPUs")
	}
	r.plugin.core.offPod(pod)
}

// waits has an unbound pod shown as nominated for the node.
func (r *racer) waits(_ int, uid types.UID) {
	pod := r.named(uid)
	pod.Status.NominatedNodeName = r.name
	pods := r.plugin.core.hiding.pods
	if err := pods.Add(pod); err != nil {
		r.t.Error(err)
	}
	r.plugin.PreFilter(r.ctx, newState(), pod, r.list)
	if r.skipsNow() {
		r.t.Error("ordinary pods skip Filter without a look at a node with a nominated pod that hides CPUs")
	}
	if err := pods.Delete(pod); err != nil {
		r.t.Error(err)
	}
}

// rebuilds changes the node's reserved CPUs, and with them the number of CPUs that it hides.
func (r *racer) rebuilds(n int, _ types.UID) {
	m, t := r.plugin.core, machine()
	if n%2 == 0 {
		t.Reserved = must(cpuset.Parse("15,31"))(r.t)
	}
	spec := t.Spec()
	made, err := m.machines.machine(&spec)
	if err != nil {
		r.t.Error(err)
		return
	}
	m.machines.set(r.name, &machineOf{machine: made, hash: r.hash})
}

func (r *racer) asks(_ int, uid types.UID) {
	pod, state := r.named(uid), newState()
	pod.Annotations = nil
	if _, status := r.plugin.PreFilter(r.ctx, state, pod, r.list); status.IsSkip() {
		return
	}
	for _, info := range r.list {
		r.plugin.Filter(r.ctx, state, pod, info)
	}
}

// Two listeners of one informer receive an event in any order, but the informer's store has the pod before both. The
// skip must therefore consult the store.
func TestSkipKnowsWhatNoEventShowedYet(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		pod := c.spec("a", 20, requesting("1"), func(p *v1.Pod) { p.Spec.NodeName = "n1" })
		c.look()
		c.handle.snapshot["n1"].AddPodInfo(fakePod{pod: pod}) // the scheduler has processed the event
		if err := c.handle.informers.Core().V1().Pods().Informer().GetStore().Add(pod); err != nil {
			t.Fatal(err)
		}
		a := &attempt{state: newState(), pod: c.spec("o", 1, requesting("13"), func(p *v1.Pod) { p.Annotations = nil }), refusals: map[string]int{}}
		if c.choose(a); a.status.IsSuccess() {
			t.Error("13 CPUs beside 20 of 32")
		}
	})
}

// The pods that the cycle of a pod group assumes are in no store, so a pod of a group must not skip Filter.
func TestPodGroupsSkipNothing(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		pod, state := c.spec("o", 1, func(p *v1.Pod) { p.Annotations = nil }), newState()
		state.group = true
		if _, status := c.plugin.PreFilter(c.ctx, state, pod, nil); !status.IsSuccess() {
			t.Errorf("in a pod group: %v", status)
		}
	})
}

// One pod that hides CPUs does not force a check of every node. An ordinary pod skips Filter if the accounting rule
// leaves room for it on every node with hidden CPUs, and does not if only the sum of requests does.
func TestOneHidingPodKeepsTheSkip(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		c.node("n2")
		c.placed(c.pod("hiding", 8, requesting("1")))
		c.look()
		for request, want := range map[string]bool{"1": true, "24": true, "24001m": false, "31": false} {
			if got := c.skipsFor(request); got != want {
				t.Errorf("a request of %s beside 8 CPUs for 1 of 32 skips Filter: %t", request, got)
			}
		}
		c.handle.nominated = []*v1.Pod{c.ordinary("nominated", "1")}
		if c.skipsFor("1") {
			t.Error("skips Filter beside a nominated pod")
		}
		c.handle.nominated = nil
		c.pod("waiting", 8, requesting("1"))
		c.settle()
		if !c.skipsFor("1") || c.skipsFor("31") {
			t.Error("a pod that waits, and is nominated for no node, counts")
		}
		c.pod("orphan", 8, requesting("1"), func(p *v1.Pod) { p.Spec.NodeName = "n3" })
		if !c.skipsFor("1") || c.skipsFor("31") {
			t.Error("a pod on a node that does not exist counts")
		}
		c.node("n3")
		if !c.skipsFor("24") {
			t.Error("24 CPUs beside 8 of 32 on the new node")
		}
		c.pod("more", 8, requesting("1"), func(p *v1.Pod) { p.Spec.NodeName = "n3" })
		if c.skipsFor("24") {
			t.Error("the new node counts as before it existed")
		}
	})
}

// An unbound pod hides CPUs on the node that it is nominated for. The framework knows the node first, the informer some
// time later, and both may know of another node.
func TestNominatedPodsThatHide(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		c.node("n2")
		pod := c.pod("waiting", 8, requesting("1"))
		expect := func(want bool, when string) {
			t.Helper()
			if got := c.skips(); got != want {
				t.Errorf("%s: an ordinary pod skips Filter: %t, want %t", when, got, want)
			}
		}
		expect(true, "before its first cycle")
		c.filter(pod)
		expect(true, "after a cycle without nomination")
		c.filter(pod)
		c.handle.nominees = map[string][]*v1.Pod{"n2": {pod}}
		expect(false, "nominated in its last cycle")
		expect(false, "and still")
		c.update(pod, func(p *v1.Pod) { p.Status.NominatedNodeName = "n2" })
		expect(false, "the informer shows the node")
		c.filter(pod)
		c.handle.nominees = map[string][]*v1.Pod{"n1": {pod}}
		expect(false, "now for another node, and the informer is late")
		c.handle.nominees = nil
		expect(true, "nominated no more")
		c.update(pod, func(p *v1.Pod) { p.Status.NominatedNodeName = "" })
		expect(true, "as the informer shows")
		c.handle.nominees = map[string][]*v1.Pod{"n1": {pod}}
		c.update(pod, func(p *v1.Pod) { p.Status.NominatedNodeName = "n1" })
		expect(false, "nominated by another program")
		c.handle.nominees = nil
		c.remove(pod)
		expect(true, "gone")

		plain := c.ordinary("plain", "1")
		c.filter(plain)
		c.handle.nominees = map[string][]*v1.Pod{"n1": {plain}}
		expect(true, "a nominated pod that hides nothing")
		c.update(plain, func(p *v1.Pod) {
			requesting("1")(p)
			p.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceCPU: quantity("8")}
			p.Annotations = map[string]string{v1alpha1.AnnotationCPUSetScheduler: "true"}
		})
		expect(false, "it asks for CPUs now")
		c.handle.nominees = nil
		expect(true, "and is nominated no more")
		c.filter(plain) // the object of the queue is that of before
		c.handle.nominees = map[string][]*v1.Pod{"n2": {plain}}
		expect(false, "nominated in a cycle with an older object")
	})
}

// Where many nodes hide CPUs, an ordinary pod that has room on all of them still skips Filter.
func TestManyHidingNodesKeepTheSkip(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		const nodes = 40
		c.hidingNodes(nodes)
		c.pod("waiting", 8, requesting("1"))
		for request, want := range map[string]bool{"1": true, "24": true, "24001m": false, "31": false} {
			if got := c.skipsFor(request); got != want {
				t.Errorf("a request of %s beside 8 CPUs for 1 of 32 on %d nodes skips Filter: %t", request, nodes, got)
			}
		}
		where := c.plugin.whereHidden(c.list())
		if len(where.spots) != nodes {
			t.Errorf("%d of %d nodes hide CPUs", len(where.spots), nodes)
		}
		if c.plugin.whereHidden(c.list()) != where {
			t.Error("searched for again, although nothing changed")
		}
		c.handle.nominees = map[string][]*v1.Pod{"h7": {c.ordinary("nominated", "1")}}
		if c.skipsFor("1") {
			t.Error("skips Filter beside a nominated pod")
		}
		c.handle.nominees = nil
		c.pod("more", 4, requesting("1"), func(p *v1.Pod) { p.Spec.NodeName = "h7" })
		if c.skipsFor("24") || !c.skipsFor("20") {
			t.Error("the node that changed counts as before")
		}
	})
}

// hidingNodes adds nodes of which each has a bound pod that hides 7 CPUs.
func (c *cluster) hidingNodes(count int) {
	c.t.Helper()
	for i := range count {
		name := fmt.Sprint("h", i)
		c.node(name)
		c.pod("on-"+name, 8, requesting("1"), func(p *v1.Pod) { p.Spec.NodeName = name })
	}
}

// A pod that carries a QoS class without exclusive CPUs costs no more than a pod without: a node that changed reads none
// of them again. Each pod that is read costs allocations.
func TestLabelledPodsAreNotReadAgain(t *testing.T) {
	allocations := map[string]float64{}
	for _, class := range []string{"", "LS", "BE"} {
		inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
			c.node("n1")
			c.look()
			info := c.handle.snapshot["n1"]
			for range 100 {
				pod := c.spec("o", 1, requesting("10m"))
				pod.Annotations, pod.Spec.NodeName = nil, "n1"
				if class != "" {
					pod.Labels = map[string]string{v1alpha1.LabelQoSClass: class}
				}
				info.AddPodInfo(fakePod{pod: pod})
			}
			for name, pod := range map[string]*v1.Pod{"pinned": c.spec("a", 4), "ordinary": c.spec("o", 2, func(p *v1.Pod) { p.Annotations = nil })} {
				state := newState()
				c.plugin.PreFilter(c.ctx, state, pod, c.list())
				allocations[name+class] = testing.AllocsPerRun(100, func() {
					info.changed()
					c.plugin.Filter(c.ctx, state, pod, info)
				})
				if got, plain := allocations[name+class], allocations[name]; got > plain {
					t.Errorf("%s pod, a changed node with 100 pods of class %q: %v allocations, %v without the class", name, class, got, plain)
				}
			}
			if n := len(c.plugin.core.nodes.find("n1").records); n > 0 {
				t.Errorf("%d records of ordinary pods of class %q", n, class)
			}
		})
	}
}
