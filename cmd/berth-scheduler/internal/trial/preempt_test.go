package trial

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-project/berth/api/v1alpha1"
)

const singleNode = `{"numaTopologyPolicy":"SingleNUMANode"}`

func prioritized(p *v1.Pod, priority int32) *v1.Pod {
	p.Spec.Priority = &priority
	return p
}

func oneNode(p *v1.Pod) *v1.Pod {
	p.Annotations[v1alpha1.AnnotationNUMATopologySpec] = singleNode
	return p
}

// names returns the sorted names of the pods that exist and are not being deleted.
func (c *cluster) names() []string {
	c.Helper()
	var names []string
	for _, p := range c.pods() {
		if p.DeletionTimestamp == nil {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names
}

// fill creates five pods of four CPUs on a small machine: a, b and c on NUMA node 0, d and e on node 1. Node 1 has four
// CPUs left.
func (c *cluster) fill(priorities map[string]int32) {
	c.Helper()
	for i, pod := range []string{"a", "b", "c", "d", "e"} {
		c.create(prioritized(pinned(pod, 1, 4), priorities[pod]))
		c.expect(pod, "n0", []string{"0-3", "4-7", "8-11", "12-15", "16-19"}[i], "0-1")
	}
}

// TestPreemptionEvictsTheRightPods checks that preemption evicts pods where eight CPUs become free in one NUMA node,
// and there the least important pods. On node 1 it can evict no pod: d and e are more important than the preemptor.
func TestPreemptionEvictsTheRightPods(t *testing.T) {
	c := newCluster(t)
	c.addMachine("n0", small())
	c.begin()
	c.fill(map[string]int32{"a": 6, "b": 3, "c": 5, "d": 100, "e": 100})
	c.create(prioritized(oneNode(pinned("high", 8, 8)), 50))
	c.expect("high", "n0", "4-11", "0-1")
	if got, want := c.names(), []string{"a", "d", "e", "high"}; !slices.Equal(got, want) {
		t.Fatalf("left are %v, want %v", got, want)
	}
	c.audit()
}

// TestPreemptionSparesWhereItCannotHelp checks that no pod is evicted if eviction cannot help: for a limit larger than
// a NUMA node, or for a required policy that contradicts the CPU count.
func TestPreemptionSparesWhereItCannotHelp(t *testing.T) {
	c := newCluster(t)
	c.addMachine("n0", small())
	c.begin()
	c.fill(map[string]int32{})
	c.create(prioritized(oneNode(pinned("large", 1, 13)), 50))
	t.Log(c.pending("large"))
	odd := prioritized(pinned("odd", 1, 3), 50)
	odd.Annotations[v1alpha1.AnnotationResourceSpec] = `{"requiredCPUBindPolicy":"FullPCPUs"}`
	c.create(odd)
	t.Log(c.pending("odd"))
	if got, want := c.names(), []string{"a", "b", "c", "d", "e", "large", "odd"}; !slices.Equal(got, want) {
		t.Fatalf("left are %v, want %v", got, want)
	}
	c.audit()
}

// TestLargerThanAnyNode checks the message for a pod that fits on no node even if the node were empty. The message says
// what is missing, not which pods are in the way.
func TestLargerThanAnyNode(t *testing.T) {
	c := newCluster(t)
	c.addMachine("n0", small())
	c.begin()
	c.fill(map[string]int32{})
	c.create(oneNode(pinned("large", 1, 13)))
	if got, want := c.pending("large"), "0/1 nodes are available: 1 node(s) had fewer than 13 free CPUs in one NUMA node. "; !strings.HasPrefix(got, want) {
		t.Fatalf("large waits because %q, want %q", got, want)
	}
}

// TestNominatedPodKeepsItsCPUs checks that the CPUs of terminating victims stay reserved for the preemptor. Pods of
// lower priority that would fit on these CPUs wait until the preemptor is bound.
func TestNominatedPodKeepsItsCPUs(t *testing.T) {
	c := newCluster(t)
	c.addMachine("n0", small())
	c.begin()
	c.fill(map[string]int32{"a": 100, "d": 100, "e": 100})
	c.api.KeepTerminating(true)
	c.create(prioritized(oneNode(pinned("high", 1, 8)), 50))
	c.until("high is nominated", func() bool { return c.pod("high").Status.NominatedNodeName == "n0" })
	c.create(prioritized(pinned("low", 1, 4), 10), prioritized(ordinary("low-ordinary", 4500, 0), 10))
	t.Log(c.pending("low"))
	t.Log(c.pending("low-ordinary"))
	c.remove("b") // one of the two victims is gone: half of the CPUs are free
	time.Sleep(300 * time.Millisecond)
	for _, low := range []string{"low", "low-ordinary"} {
		if bound(c.pod(low)) {
			t.Fatalf("%s got the CPUs that high waits for", low)
		}
	}
	c.api.Reap()
	c.expect("high", "n0", "4-11", "0-1")
	c.audit()
	c.remove("high")
	c.bound("low")
	c.audit()
}

// TestOrdinaryPodPreemptsPinned checks that an ordinary pod of high priority preempts pinned pods by the accounting
// rule: it counts the CPUs that they have, not the CPUs that they request.
func TestOrdinaryPodPreemptsPinned(t *testing.T) {
	c := newCluster(t)
	c.addMachine("n0", small())
	c.begin()
	c.fill(map[string]int32{"a": 100, "b": 100, "c": 100, "d": 0, "e": 100})
	c.create(prioritized(ordinary("high", 8000, 0), 50))
	c.bound("high")
	if got, want := c.names(), []string{"a", "b", "c", "e", "high"}; !slices.Equal(got, want) {
		t.Fatalf("left are %v, want %v", got, want)
	}
	c.audit()
}
