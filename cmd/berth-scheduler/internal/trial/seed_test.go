package trial

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-project/berth/api/v1alpha1"
)

// expect waits until the pod is bound, and compares its node and its whole placement.
func (c *cluster) expect(pod, node, cpus, mems string) {
	c.Helper()
	p := c.bound(pod)
	got := c.placement(p)
	want := v1alpha1.ContainerPlacement{CPUs: cpus, Mems: mems, Policy: v1alpha1.PlacementExclusive}
	if p.Spec.NodeName != node || got.Containers["app"] != want || len(got.Containers) != 1 {
		c.Fatalf("%s on %s with %+v, want %s and %+v", pod, p.Spec.NodeName, got, node, want)
	}
}

func (c *cluster) placement(p *v1.Pod) v1alpha1.Placement {
	c.Helper()
	text := p.Annotations[v1alpha1.AnnotationPlacement]
	got, bad := v1alpha1.DecodePlacement(text)
	if len(bad) > 0 {
		c.Fatalf("placement %q of %s: %v", text, p.Name, bad)
	}
	return got
}

// TestSeed fills one machine L3 by L3 with cal-pi (request = limit = 4) and go-demo (request 1, limit 4, four
// replicas). The next pod's condition gives a reason in the scheduler's grouped form. This pod gets the CPUs of the
// first pod that ends.
func TestSeed(t *testing.T) {
	c := newCluster(t)
	c.addMachine("n0", small())
	c.begin()
	c.create(pinned("cal-pi", 4, 4))
	c.expect("cal-pi", "n0", "0-3", "0-1")
	for i, cpus := range []string{"4-7", "8-11", "12-15", "16-19"} {
		c.create(pinned(name("go-demo", i), 1, 4))
		c.expect(name("go-demo", i), "n0", cpus, "0-1")
	}
	c.create(pinned("one-more", 1, 4))
	if got, want := c.pending("one-more"), "0/1 nodes are available: 1 node(s) had no whole core left for the shared pool. "; !strings.HasPrefix(got, want) {
		t.Fatalf("one-more waits because %q, want %q", got, want)
	}
	c.finish("cal-pi")
	c.expect("one-more", "n0", "0-3", "0-1")
	c.audit()
}

// TestGroupedReasons checks that the condition of a pending pod groups the nodes by reason.
func TestGroupedReasons(t *testing.T) {
	c := newCluster(t)
	for i := range 12 {
		c.addMachine(name("n", i), small())
	}
	c.begin()
	for i := range 24 {
		c.create(oneNode(pinned(name("nine", i), 1, 9))) // three CPUs remain in each NUMA node
		c.bound(name("nine", i))
	}
	c.create(oneNode(pinned("four", 1, 4)))
	if got, want := c.pending("four"), "0/12 nodes are available: 12 node(s) had fewer than 4 free CPUs in one NUMA node. "; !strings.HasPrefix(got, want) {
		t.Fatalf("the pod waits because %q, want %q", got, want)
	}
	c.audit()
}
