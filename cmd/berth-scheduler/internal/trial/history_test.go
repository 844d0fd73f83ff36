package trial

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/scheduler/schedule"
	"github.com/berth-project/berth/internal/scheduler/simulate"
	"github.com/berth-project/berth/test/chance"
)

// history is a cluster with random events, one at a time: the scheduler has seen each event before the next one.
type history struct {
	*cluster
	by     *byHand
	plugin *schedule.Plugin
	rand   *rand.Rand
	// nodes are the nodes that exist, by name, as they were last stored.
	nodes map[string]*v1.Node
	// shut are the nodes whose agents report that they pin nothing.
	shut                 map[string]bool
	pods, machines       int // created so far
	placed, waited, tied int
	done                 map[string]int
}

// TestSimulateAgreesOverEvents applies random events to a cluster (BERTH_PAPER_EVENTS, 2,000; make verify-cluster:
// 10,000). Pods of all kinds arrive, end and are deleted; nodes join, leave, are cordoned and tainted; agents stop
// pinning. For each new pod two programs decide: simulate, from what the API server has, and the scheduler's own cycle
// in this process. Either both leave the pod pending for the same reasons, or both give it the same node, CPUs and
// memory nodes.
//
// The two differ by definition in three cases. First, other plugins also score nodes in the scheduler: the test gives
// Berth's score a weight that decides. Second, among nodes with equal scores simulate chooses the first name, but the
// scheduler chooses by other plugins or at random. For an ordinary pod Berth has no score at all. The scheduler's node
// must then be one of the equal nodes, and on that node the CPUs must be the same. Third, if only few nodes are open,
// the plugin shows only these nodes to the scheduler. For all other nodes the scheduler reports only that Berth ruled
// them out, without a reason.
func TestSimulateAgreesOverEvents(t *testing.T) {
	events := setting("BERTH_PAPER_EVENTS", 2000)
	if testing.Short() {
		events /= 5
	}
	seed := chance.Seed()
	h := &history{
		cluster: newCluster(t), rand: rand.New(rand.NewPCG(seed, 5)),
		nodes: map[string]*v1.Node{}, shut: map[string]bool{}, done: map[string]int{},
	}
	for range 5 {
		h.join()
	}
	h.put(node("bare", 8)) // without a topology
	cfg := configFrom(t, "testdata/without-leases.yaml")
	for i := range cfg.Profiles[0].Plugins.MultiPoint.Enabled {
		if one := &cfg.Profiles[0].Plugins.MultiPoint.Enabled[i]; one.Name == schedule.Name {
			one.Weight = 1000
		}
	}
	s := h.build(t.Context(), cfg, caught(&h.plugin))
	h.by = &byHand{Scheduler: s, f: s.Profiles[schedulerName], t: t}
	for i := range events {
		if name := h.event(); testing.Verbose() && i%1000 == 0 {
			t.Logf("event %d: %s", i, name)
		}
		h.settle()
	}
	h.audit()
	t.Logf("seed %d: %d pods placed, %d of them on another node that is as good; %d waited; %v", seed, h.placed, h.tied, h.waited, h.done)
	if h.placed < events/5 || h.waited < events/50 {
		t.Errorf("too few of one kind to compare")
	}
}

// event applies one random event and returns its name.
func (h *history) event() string {
	events := []struct {
		weight int
		name   string
		run    func()
	}{
		{60, "create", h.decide},
		{20, "delete", func() { h.some(func(p *v1.Pod) { h.remove(p.Name) }) }},
		{6, "complete", func() { h.some(func(p *v1.Pod) { h.finish(p.Name) }) }},
		{3, "cordon", func() { h.change(func(n *v1.Node) { n.Spec.Unschedulable = h.seldom() }) }},
		{3, "taint", func() { h.change(h.taint) }},
		{4, "close", h.close},
		{3, "join", h.join},
		{1, "leave", h.leave},
	}
	at := h.rand.IntN(100)
	for _, e := range events {
		if at -= e.weight; at < 0 {
			h.done[e.name]++
			e.run()
			return e.name
		}
	}
	h.Fatal("the weights are not 100 together")
	return ""
}

// some calls run with a random pod that has not completed, if there is one.
func (h *history) some(run func(*v1.Pod)) {
	pods := slices.DeleteFunc(h.cluster.pods(), func(p *v1.Pod) bool { return p.Status.Phase == v1.PodSucceeded })
	if len(pods) > 0 {
		run(pods[h.rand.IntN(len(pods))])
	}
}

// any returns the name of a random node. It sorts the names first, so that the seed decides.
func (h *history) any() string {
	names := slices.Sorted(maps.Keys(h.nodes))
	return names[h.rand.IntN(len(names))]
}

func (h *history) put(n *v1.Node) {
	h.Helper()
	h.addNode(n)
	h.nodes[n.Name] = n
}

// change modifies a random node and stores it again.
func (h *history) change(how func(*v1.Node)) {
	h.Helper()
	n := h.nodes[h.any()].DeepCopy()
	how(n)
	h.put(n)
}

// seldom is true in one of four cases, so that most nodes stay open.
func (h *history) seldom() bool { return h.rand.IntN(4) == 0 }

func (h *history) taint(n *v1.Node) {
	n.Spec.Taints = nil
	if h.seldom() {
		n.Spec.Taints = []v1.Taint{{Key: "team", Value: "shop", Effect: v1.TaintEffectNoSchedule}}
	}
}

// close makes the agent of a random node report that it pins nothing, or that it pins again.
func (h *history) close() {
	h.Helper()
	var with []v1alpha1.NodeTopology
	if err := h.api.All(topologyPath, &with); err != nil {
		h.Fatal(err)
	}
	t := &with[h.rand.IntN(len(with))]
	h.shut[t.Name] = h.seldom()
	pinnable := metav1.Condition{Type: v1alpha1.ConditionPinnable, Status: metav1.ConditionTrue, Reason: "Trial"}
	if h.shut[t.Name] {
		pinnable.Status, pinnable.Reason = metav1.ConditionFalse, "KubeletCPUManager"
	}
	t.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Trial"}, pinnable}
	h.publish(t)
}

// mostNodes is the maximum number of nodes: more than a pod is shown at its first try.
const mostNodes = shown + 4

// join adds a machine of a random kind.
func (h *history) join() {
	h.Helper()
	if len(h.nodes) == mostNodes {
		return
	}
	kinds := []shape{
		small(), {nodes: 1, l3: 4, cores: 4, threads: 2, reserved: "0-1"}, {nodes: 4, l3: 1, cores: 4, threads: 1}, {nodes: 1, l3: 1, cores: 2, threads: 4},
	}
	n, kind := name("n", h.machines), kinds[h.rand.IntN(len(kinds))]
	h.machines++
	h.publish(nodeTopology(h, n, kind))
	h.put(node(n, kind.cpus()))
}

// leave removes a random node and its pods.
func (h *history) leave() {
	h.Helper()
	n := h.any()
	if n == "bare" || len(h.nodes) < 4 {
		return
	}
	for _, p := range h.cluster.pods() {
		if p.Spec.NodeName == n {
			h.remove(p.Name)
		}
	}
	h.api.Remove(nodePath, "", n)
	h.api.Remove(topologyPath, "", n)
	delete(h.nodes, n)
	delete(h.shut, n)
}

// settle waits until the scheduler has seen the last event.
func (h *history) settle() {
	h.Helper()
	h.until("the scheduler knows the pods and nodes", func() bool {
		running := map[string]string{}
		for _, p := range h.cluster.pods() {
			if p.Status.Phase != v1.PodSucceeded {
				running[p.Name] = p.Spec.NodeName
			}
		}
		infos := h.by.snapshot()
		for _, info := range infos {
			n, there := h.nodes[info.Node().Name]
			if !there || n.Spec.Unschedulable != info.Node().Spec.Unschedulable || len(n.Spec.Taints) != len(info.Node().Spec.Taints) {
				return false
			}
			for _, p := range info.GetPods() {
				if running[p.GetPod().Name] != info.Node().Name {
					return false
				}
				delete(running, p.GetPod().Name)
			}
		}
		return len(infos) == len(h.nodes) && len(running) == 0
	})
	probe := uid(pinned("probe", 1, 1), "probe")
	h.until("the plugin knows the agents", func() bool {
		infos := h.by.snapshot()
		state, _ := h.by.cycle(probe)
		for _, info := range infos {
			n := info.Node().Name
			said := h.plugin.Filter(h.Context(), state, probe, info).Message()
			if shut := strings.Contains(said, "were not pinnable"); shut != h.shut[n] {
				return false
			}
			if without := strings.Contains(said, "had no NodeTopology"); without != (n == "bare") {
				return false
			}
		}
		return true
	})
}

// decide creates a pod, lets the scheduler's own cycle decide about it, and compares the result with simulate.
func (h *history) decide() {
	h.Helper()
	p := anyPod(h.rand, name("p", h.pods))
	h.pods++
	if p.Spec.NodeSelector != nil {
		p.Spec.NodeSelector[v1.LabelHostname] = h.any()
	}
	p.UID = types.UID(p.Name)
	before, err := simulate.Observe(h.Context(), h.api.Config())
	if err != nil {
		h.Fatal(err)
	}
	before.Agents = simulate.Agents{} // no agent renews a Lease here, and the scheduler ignores Leases
	h.by.snapshot()
	state := framework.NewCycleState()
	info, err := framework.NewPodInfo(p)
	if err != nil {
		h.Fatal(err)
	}
	chosen, err := h.by.SchedulePod(h.Context(), h.by.f, state, &framework.QueuedPodInfo{PodInfo: info})
	var unfit *framework.FitError
	switch {
	case errors.As(err, &unfit):
		h.waited++
		report := h.onPaper(before, p, "")
		named := strings.Contains(unfit.Error(), "didn't satisfy plugin(s) [Berth]")
		if len(report.Pending) != 1 || !named && !strings.HasPrefix(unfit.Error(), report.Pending[0].Reason) {
			h.Fatalf("%s waits:\n%s\non paper: %+v %+v", p.Name, unfit, report.Pending, report.Placements)
		}
		return
	case err != nil:
		h.Fatal(err)
	}
	h.placed++
	h.by.bindTo(h.cluster, state, p, chosen.SuggestedHost)
	h.compare(before, h.pod(p.Name))
}

// compare checks the node and the CPUs of a bound pod against the result of simulate.
func (h *history) compare(before simulate.Objects, p *v1.Pod) {
	h.Helper()
	paper := h.place(before, p)
	if on := p.Spec.NodeName; paper.Node != on {
		h.tied++
		if one := h.place(without(before, func(n string) bool { return n == on }), p); len(p.Annotations) > 0 && one.Equals != paper.Equals-1 {
			h.Fatalf("%s is on %s; on paper on %s, which is better (%d and %d others are as good)", p.Name, on, paper.Node, paper.Equals, one.Equals)
		}
		paper = h.place(without(before, func(n string) bool { return n != on }), p)
	}
	got := map[string]v1alpha1.ContainerPlacement{}
	for _, part := range paper.Containers {
		got[part.Name] = v1alpha1.ContainerPlacement{CPUs: part.CPUs, Mems: part.Mems, Policy: v1alpha1.PlacementPolicy(part.Policy), Domain: part.Domain}
	}
	want := map[string]v1alpha1.ContainerPlacement{}
	if len(p.Annotations) > 0 {
		want = h.placement(p).Containers
	}
	if paper.Node != p.Spec.NodeName || !maps.Equal(want, got) {
		h.Fatalf("%s is on %s with %+v, on paper on %s with %+v", p.Name, p.Spec.NodeName, want, paper.Node, got)
	}
}

// place runs simulate with one more pod and returns the pod's placement.
func (h *history) place(before simulate.Objects, p *v1.Pod) simulate.Placement {
	h.Helper()
	report := h.onPaper(before, p, "")
	if len(report.Placements) != 1 {
		h.Fatalf("%s is on %s, on paper it waits: %+v", p.Name, p.Spec.NodeName, report.Pending)
	}
	return report.Placements[0]
}

// without returns a copy of the cluster in which the nodes that is selects are cordoned.
func without(o simulate.Objects, is func(name string) bool) simulate.Objects {
	o.Nodes = slices.Clone(o.Nodes)
	for i := range o.Nodes {
		if is(o.Nodes[i].Name) {
			o.Nodes[i].Spec.Unschedulable = true
		}
	}
	return o
}
