package schedule

import (
	"maps"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/topology"
)

// memory limits and requests memory, and huge pages of 1 GiB where some are given.
func memory(amount, huge string) option {
	return func(p *v1.Pod) {
		list := v1.ResourceList{v1.ResourceMemory: resource.MustParse(amount)}
		if huge != "" {
			list[v1.ResourceHugePagesPrefix+"1Gi"] = resource.MustParse(huge)
		}
		r := &p.Spec.Containers[0].Resources
		if cpu, found := r.Requests[v1.ResourceCPU]; found {
			list[v1.ResourceCPU] = cpu
		}
		r.Requests, r.Limits = list, list
	}
}

// Memory is bound where it is known to fit beside what all pods of the node request:
// ordinary ones, and one that is on its way to the node.
func TestMemoryBesideOrdinaryPods(t *testing.T) {
	mems := func(c *cluster, pod *v1.Pod) string { return memsOf(t, c, pod) }
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		small := c.pod("small", 2, memory("10Gi", ""))
		c.placed(small)
		if got := mems(c, small); got != "0" {
			t.Errorf("a pod that fits is bound to %s", got)
		}
		ordinary := c.ordinary("ordinary", "1")
		c.update(ordinary, func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Requests[v1.ResourceMemory] = resource.MustParse("100Gi")
		})
		c.reserve(c.filter(c.get(ordinary))) // assumed, not bound
		late := c.pod("late", 2, memory("10Gi", ""))
		c.placed(late)
		if got := mems(c, late); got != "0-1" {
			t.Errorf("a pod beside one that may fill its node is bound to %s", got)
		}
	})
}

// withPools is machine with 62 of its 64 GiB a NUMA node in huge pages of 1 GiB.
func withPools() *topology.Topology {
	t := machine()
	for i := range t.Nodes {
		t.Nodes[i].HugePages = []topology.HugePages{{PageKiB: 1 << 20, Pages: 62}}
		t.Nodes[i].HugePageBytes = t.Nodes[i].HugePages[0].Bytes()
	}
	return t
}

// Huge pages of one NUMA node are promised once: a pod of 50 GiB and one of 40 GiB are in
// different ones, also for a scheduler that starts anew. What neither has left is bound
// nowhere, and what an ordinary pod requests may be anywhere.
func TestHugePagesArePromisedOnce(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.bareNode("n1")
		c.topology("n1", withPools())
		c.settle()
		place := func(name, huge, want string) {
			t.Helper()
			pod := c.pod(name, 2, memory("64Mi", huge))
			c.placed(pod)
			if got := memsOf(t, c, pod); got != want {
				t.Errorf("%s of huge pages may come from NUMA nodes %s, want %s", huge, got, want)
			}
		}
		place("first", "50Gi", "0")
		place("second", "40Gi", "1")
		c.start()
		place("third", "20Gi", "1")
		ordinary := c.ordinary("ordinary", "1")
		c.update(ordinary, func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Requests[v1.ResourceHugePagesPrefix+"1Gi"] = resource.MustParse("5Gi")
		})
		c.reserve(c.filter(c.get(ordinary)))
		place("too much beside it", "8Gi", "0-1")
	})
}

// A pod whose huge pages another scheduler gave away meanwhile is not bound, and placed
// anew: the CPUs are still free.
func TestHugePagesGivenAwayMeanwhile(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.bareNode("n1")
		c.topology("n1", withPools())
		c.settle()
		pod := c.pod("p", 2, memory("64Mi", "40Gi"))
		reserved := c.reserve(c.filter(pod))
		rival := c.spec("rival", 2, memory("64Mi", "50Gi"), annotated(v1alpha1.AnnotationPlacement,
			`{"v":1,"topology":"`+machine().Hash()+`","containers":{"app":{"cpus":"4-5","mems":"0","policy":"exclusive"}}}`))
		rival.Spec.NodeName = "n1"
		c.create(rival)
		if c.finish(reserved); reserved.status.Message() != textRace {
			t.Errorf("Bind: %v", reserved.status)
		}
		c.placed(pod)
		if got := memsOf(t, c, pod); got != "1" {
			t.Errorf("the next try binds it to %s", got)
		}
	})
}

// The CPUs of a pod are beside the devices that device plugins have left in a NUMA node, in
// Filter, Score and Reserve alike: of two nodes the one whose NUMA nodes have them together
// comes first, and there the NUMA node that has them.
func TestDevicesOfPlugins(t *testing.T) {
	gpus := func(n string) option {
		return func(p *v1.Pod) {
			list := &p.Spec.Containers[0].Resources
			list.Requests = maps.Clone(list.Requests)
			list.Requests["example.com/gpu"] = resource.MustParse(n)
		}
	}
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		for name, perNode := range map[string][]int64{"n1": {3, 3}, "n2": {2, 4}} {
			m := machine()
			m.Devices = []topology.Device{{Resource: "example.com/gpu", Nodes: perNode}}
			c.bareNode(name)
			c.topology(name, m)
		}
		c.settle()
		first, second := machine().Nodes[0].CPUs, machine().Nodes[1].CPUs
		pod := c.pod("four", 2, gpus("4"))
		if cpus := c.placed(pod); c.get(pod).Spec.NodeName != "n2" || !cpus.IsSubsetOf(second) {
			t.Errorf("four GPUs: CPUs %s of %s", cpus, c.get(pod).Spec.NodeName)
		}
		c.start() // what pods hold is read from them
		pod = c.pod("six", 4, gpus("6"))
		if cpus := c.placed(pod); c.get(pod).Spec.NodeName != "n1" || cpus.Intersect(first).Size() != 2 || cpus.Intersect(second).Size() != 2 {
			t.Errorf("six GPUs: CPUs %s of %s", cpus, c.get(pod).Spec.NodeName)
		}
		pod = c.pod("two", 2, gpus("2"))
		if cpus := c.placed(pod); c.get(pod).Spec.NodeName != "n2" || !cpus.IsSubsetOf(first) {
			t.Errorf("two GPUs: CPUs %s of %s", cpus, c.get(pod).Spec.NodeName)
		}
	})
}

func memsOf(t *testing.T, c *cluster, pod *v1.Pod) string {
	t.Helper()
	return placementOf(t, c, pod).Containers["app"].Mems
}

func placementOf(t *testing.T, c *cluster, pod *v1.Pod) v1alpha1.Placement {
	t.Helper()
	placed, problems := v1alpha1.DecodePlacement(c.get(pod).Annotations[v1alpha1.AnnotationPlacement])
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return placed
}

// What the kubelet's memory manager gave to pods without exclusive CPUs counts in its NUMA
// nodes as soon as the agent says so, and until it says otherwise: in Filter and Reserve, and
// for a binding that is under way.
func TestMemoryThatTheKubeletGave(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		gives := func(given ...v1alpha1.KubeletMemory) {
			c.source.set("n1", func(nt *v1alpha1.NodeTopology) { nt.Status.KubeletMemory = given })
			c.settle()
		}
		guaranteed := c.ordinary("guaranteed", "1")
		c.update(guaranteed, func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Requests[v1.ResourceMemory] = resource.MustParse("40Gi")
		})
		c.schedule(c.get(guaranteed))
		places := func(name, amount, want string) {
			t.Helper()
			pod := c.pod(name, 2, memory(amount, ""))
			c.placed(pod)
			if got := memsOf(t, c, pod); got != want {
				t.Errorf("%s: memory of NUMA nodes %s, want %s", name, got, want)
			}
			c.remove(pod)
		}
		places("before the agent said where, half of it is in each", "30Gi", "0")
		places("and too little is left for more", "40Gi", "0-1")
		gives(v1alpha1.KubeletMemory{NUMANodes: "0", Bytes: 40 << 30})
		places("there is room in the other node", "40Gi", "1")
		late := c.reserve(c.filter(c.pod("late", 2, memory("40Gi", ""))))
		gives(v1alpha1.KubeletMemory{NUMANodes: "1", Bytes: 40 << 30})
		if c.finish(late); late.status.Message() != textRace {
			t.Errorf("bound although the kubelet gave the memory away: %v", late.status)
		}
		places("it is in the other one now", "40Gi", "0")
		gives()
		c.remove(guaranteed)
		places("it is gone", "50Gi", "0")
	})
}
