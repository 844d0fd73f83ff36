package schedule

import (
	"maps"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/linux/topology"
)

// memory sets requests and limits of memory, and of huge pages of 1 GiB if huge is not empty.
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

// A pod's memory is bound to a NUMA node only if it fits beside the requests of all pods of the node. These include
// ordinary pods and a pod that is being bound.
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

// withPools returns machine with 62 of the 64 GiB of each NUMA node in huge pages of 1 GiB.
func withPools() *topology.Topology {
	t := machine()
	for i := range t.Nodes {
		t.Nodes[i].HugePages = []topology.HugePages{{PageKiB: 1 << 20, Pages: 62}}
		t.Nodes[i].HugePageBytes = t.Nodes[i].HugePages[0].Bytes()
	}
	return t
}

// Huge pages of a NUMA node are promised once: pods of 50 GiB and 40 GiB go to different nodes, also after a restart. A
// pod that neither node can hold is not bound to a NUMA node. An ordinary pod's request may be on any node.
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

// Another scheduler gave away the pod's huge pages before the binding. The binding is refused and the pod is placed
// again, although its CPUs are still free.
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

// Filter, Score and Reserve put a pod's CPUs beside the free devices of device plugins. They prefer the node that has
// the devices in one NUMA node, and that NUMA node on it.
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
		c.start() // the new scheduler reads the held devices from the pods
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

// Memory that the kubelet's memory manager gave to pods without exclusive CPUs counts on its NUMA nodes. It counts from
// the agent's report until the next report: in Filter, in Reserve, and for a binding under way.
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
