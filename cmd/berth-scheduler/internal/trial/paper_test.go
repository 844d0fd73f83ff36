package trial

import (
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/scheduler/simulate"
)

// TestSimulateAgrees checks that simulate and the scheduler agree. Before each pod the test reads the cluster, places
// the pod with simulate, and then lets the scheduler place it. Node, CPUs and memory nodes must be the same. For a pod
// that waits, the scheduler's reasons must be the same.
func TestSimulateAgrees(t *testing.T) {
	c := newCluster(t)
	wide := shape{nodes: 1, l3: 4, cores: 4, threads: 2, reserved: "0-1"}
	for i, s := range []shape{small(), small(), wide, {nodes: 4, l3: 1, cores: 4, threads: 1}} {
		c.addMachine(name("n", i), s)
	}
	tainted := node("tainted", wide.cpus())
	tainted.Spec.Taints = []v1.Taint{{Key: "team", Value: "shop", Effect: v1.TaintEffectNoSchedule}}
	c.publish(nodeTopology(t, tainted.Name, wide))
	c.renew(tainted.Name, 0)
	c.addNode(tainted)
	c.addNode(node("bare", 8)) // without a topology
	c.begin()
	c.opened("n-000", "n-001", "n-002", "n-003", tainted.Name)

	random := rand.New(rand.NewPCG(1, 7))
	placed, waited := 0, 0
	for i := range 150 {
		p := anyPod(random, name("p", i))
		before, err := simulate.Observe(t.Context(), c.api.Config())
		if err != nil {
			t.Fatal(err)
		}
		c.create(p)
		c.until(p.Name+" is decided", func() bool {
			p = c.pod(p.Name)
			return p.Spec.NodeName != "" || why(p) != ""
		})
		if p.Spec.NodeName == "" {
			waited++
			c.comparePending(before, p)
			c.remove(p.Name)
			c.makeRoom(random)
			continue
		}
		placed++
		c.comparePlaced(before, p)
	}
	if placed < 50 || waited < 10 {
		t.Errorf("%d pods placed, %d waited: too few of one kind to compare", placed, waited)
	}
	c.audit()
}

// opened waits until the plugin pins pods on each of these nodes.
func (c *cluster) opened(nodes ...string) {
	c.Helper()
	for _, n := range nodes {
		probe := pinned("probe-"+n, 1, 1)
		probe.Spec.NodeSelector = map[string]string{v1.LabelHostname: n}
		probe.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}}
		c.create(probe)
		c.bound(probe.Name)
		c.remove(probe.Name)
	}
}

// anyPod returns a random pod of many kinds.
func anyPod(random *rand.Rand, name string) *v1.Pod {
	cpus := 1 + random.Int64N(12)
	p := pinned(name, 1+random.Int64N(cpus), cpus)
	p.Annotations["scheduling.koordinator.sh/resource-spec"] = []string{
		`{}`, `{}`, `{"requiredCPUBindPolicy":"FullPCPUs"}`, `{"preferredCPUBindPolicy":"SpreadByPCPUs"}`,
		`{"preferredCPUExclusivePolicy":"PCPULevel"}`, `{"requiredCPUExclusivePolicy":"NUMANodeLevel"}`,
	}[random.IntN(6)]
	switch random.IntN(8) {
	case 0:
		p = ordinary(name, 500*cpus, 0)
	case 1:
		p = oneNode(p)
	case 2:
		p.Annotations["cpu-policy"] = "static-burst"
	case 3:
		p.Spec.Tolerations = []v1.Toleration{{Key: "team", Operator: v1.TolerationOpExists}}
	case 4:
		p.Spec.NodeSelector = map[string]string{v1.LabelHostname: "n-002"}
	}
	return p
}

// makeRoom removes about a third of the pods, so that later pods can be placed too.
func (c *cluster) makeRoom(random *rand.Rand) {
	c.Helper()
	for _, p := range c.pods() {
		if random.IntN(3) == 0 {
			c.remove(p.Name)
		}
	}
}

// onPaper runs simulate on the cluster with one more pod. If node is not empty, the pod is already on that node.
func (c *cluster) onPaper(before simulate.Objects, p *v1.Pod, node string) simulate.Report {
	c.Helper()
	fresh := p.DeepCopy()
	fresh.Spec.NodeName = node
	delete(fresh.Annotations, v1alpha1.AnnotationPlacement)
	before.Pods = append(before.Pods, simulate.Pod{Pod: fresh, Preset: node != ""})
	report, err := simulate.New(before).Run(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	return report
}

func (c *cluster) comparePending(before simulate.Objects, p *v1.Pod) {
	c.Helper()
	report := c.onPaper(before, p, "")
	if len(report.Pending) != 1 {
		c.Fatalf("%s waits (%s), on paper it is placed: %+v", p.Name, why(p), report.Placements)
	}
	if paper := report.Pending[0].Reason; !strings.HasPrefix(why(p), paper) {
		c.Fatalf("%s waits:\n%s\non paper:\n%s", p.Name, why(p), paper)
	}
}

func (c *cluster) comparePlaced(before simulate.Objects, p *v1.Pod) {
	c.Helper()
	report := c.onPaper(before, p, "")
	if len(report.Placements) != 1 {
		c.Fatalf("%s is on %s, on paper it waits: %+v", p.Name, p.Spec.NodeName, report.Pending)
	}
	paper := report.Placements[0]
	pins := len(p.Annotations) > 0
	if pins && paper.Node != p.Spec.NodeName && paper.Equals == 0 {
		c.Fatalf("%s is on %s, on paper on %s", p.Name, p.Spec.NodeName, paper.Node)
	}
	if paper.Node != p.Spec.NodeName { // an equally good node, or an ordinary pod, which other plugins place
		paper = c.onPaper(before, p, p.Spec.NodeName).Placements[0]
	}
	if !pins {
		return
	}
	got, want := map[string]v1alpha1.ContainerPlacement{}, c.placement(p).Containers
	for _, part := range paper.Containers {
		got[part.Name] = v1alpha1.ContainerPlacement{
			CPUs: part.CPUs, Mems: part.Mems, Policy: v1alpha1.PlacementPolicy(part.Policy), Domain: part.Domain,
		}
	}
	if !maps.Equal(want, got) {
		c.Fatalf("%s on %s: %+v, on paper %+v", p.Name, p.Spec.NodeName, want, got)
	}
}
