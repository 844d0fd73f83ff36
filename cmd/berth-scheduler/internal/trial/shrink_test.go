package trial

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/api/v1alpha1"
)

// republish replaces the NUMA nodes that a node's agent publishes, and waits until the scheduler knows it. The agent
// closes the node with the new memory and then opens it: only the closing shows in the answers of Filter.
func (b *byHand) republish(c *cluster, name string, nodes []v1alpha1.NUMANode) {
	b.t.Helper()
	var all []v1alpha1.NodeTopology
	if err := c.api.All(topologyPath, &all); err != nil {
		b.t.Fatal(err)
	}
	t := &all[slices.IndexFunc(all, func(t v1alpha1.NodeTopology) bool { return t.Name == name })]
	t.Spec.NUMANodes = nodes
	for _, status := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionTrue} {
		t.Status.Conditions = []metav1.Condition{
			{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Trial"},
			{Type: v1alpha1.ConditionPinnable, Status: status, Reason: "Trial"},
		}
		c.publish(t)
		c.until("the scheduler knows the memory of "+name, func() bool {
			return strings.Contains(b.answer(probe(), name), "were not pinnable") == (status == metav1.ConditionFalse)
		})
	}
}

// probe returns a pinned pod that requests no CPU: a full node does not refuse it before Berth's Filter is asked.
func probe() *v1.Pod { return uid(pinned("probe", 0, 1), "probe") }

// answer returns what Filter says about a pod on a node, "" if the pod fits.
func (b *byHand) answer(p *v1.Pod, node string) string {
	b.t.Helper()
	nodes := b.snapshot()
	state, _ := b.cycle(p)
	for _, n := range nodes {
		if n.Node().Name == node {
			return b.f.RunFilterPlugins(b.t.Context(), state, p, n).Message()
		}
	}
	b.t.Fatalf("no node %s", node)
	return ""
}

// TestMemoryShrinksUnderPods publishes less memory at each step of a pod's way to its node. A placement that was decided
// before is not bound; the pod is judged by what is left, and loses only the binding of its memory. A bound pod keeps
// its placement, and the next pods get what is left beside it.
func TestMemoryShrinksUnderPods(t *testing.T) {
	const most = 4 * gi
	pod := func(name string) *v1.Pod {
		p := uid(pinned(name, 2, 2), name)
		p.Spec.Containers[0].Resources.Limits[v1.ResourceMemory] = *resource.NewQuantity(most, resource.BinarySI)
		p.Spec.Containers[0].Resources.Requests[v1.ResourceMemory] = *resource.NewQuantity(gi, resource.BinarySI)
		return p
	}
	for _, test := range []struct{ when, first, next string }{
		{"before Filter", "0-1", "0-1"},
		{"before Reserve", "0-1", "0-1"},
		{"before Bind", "0-1", "0-1"},
		{"after Bind", "0", "0-1"},
		{"never", "0", "1"},
	} {
		t.Run(test.when, func(t *testing.T) {
			c := newCluster(t)
			c.addMachine("n0", tights()[0])
			b := c.byHand()
			b.known()
			full := tights()[0].spec(t).NUMANodes
			less := slices.Clone(full)
			for i := range less {
				less[i].MemoryBytes -= 3 * gi
			}
			shrink := func(now string) {
				if now == test.when {
					b.republish(c, "n0", less)
				}
			}
			first := pod("first")
			c.create(first)
			first = c.pod("first")
			shrink("before Filter")
			b.snapshot()
			state, _ := b.cycle(first)
			if said := b.answer(first, "n0"); said != "" {
				t.Fatal(said)
			}
			shrink("before Reserve")
			if status := b.f.RunReservePluginsReserve(t.Context(), state, first, "n0"); !status.IsSuccess() {
				t.Fatal(status)
			}
			shrink("before Bind")
			status := b.f.RunBindPlugins(t.Context(), state, first, "n0")
			if test.when == "before Bind" {
				if !strings.Contains(status.Message(), "changed") {
					t.Fatalf("a decision for memory that is gone: %v", status)
				}
				b.f.RunReservePluginsUnreserve(t.Context(), state, first, "n0")
				b.snapshot()
				state, _ = b.cycle(first)
				if status = b.f.RunReservePluginsReserve(t.Context(), state, first, "n0"); status.IsSuccess() {
					status = b.f.RunBindPlugins(t.Context(), state, first, "n0")
				}
			}
			if !status.IsSuccess() {
				t.Fatal(status)
			}
			c.expectMems("first", test.first)
			shrink("after Bind")
			b.snapshot()
			next := pod("next")
			state, _ = b.cycle(next)
			b.bindTo(c, state, next, "n0")
			c.expectMems("first", test.first)
			c.expectMems("next", test.next)
			c.remove("first")
			c.remove("next")
			b.republish(c, "n0", full)
			again := pod("again")
			c.until("the memory is there again", func() bool { return len(b.snapshot()[0].GetPods()) == 0 })
			state, _ = b.cycle(again)
			b.bindTo(c, state, again, "n0")
			c.expectMems("again", "0")
		})
	}
}

func (c *cluster) expectMems(pod, want string) {
	c.Helper()
	if got := c.placement(c.pod(pod)).Containers["app"].Mems; got != want {
		c.Fatalf("%s has the memory of NUMA nodes %s, want %s", pod, got, want)
	}
}
