package placement_test

import (
	"testing"

	"github.com/berth-project/berth/internal/alloc"
	"github.com/berth-project/berth/internal/placement"
	"github.com/berth-project/berth/internal/workload"
)

const resourceSpec = "scheduling.koordinator.sh/resource-spec"

func TestRefusals(t *testing.T) {
	small := shape{nodes: 1, l3: 1, cores: 4, threads: 2}
	labelled := func(key, value string) placement.Node {
		n := small.node(t)
		policy, problems := placement.PolicyOf(map[string]string{"node.koordinator.sh/" + key: value})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		n.Policy = policy
		return n
	}
	busy := small.node(t)
	busy.RequestedMilli = 6500
	numa := func(policy string) []string {
		return []string{"scheduling.koordinator.sh/numa-topology-spec", `{"numaTopologyPolicy":"` + policy + `"}`}
	}
	bind := func(policy string) []string {
		return []string{resourceSpec, `{"requiredCPUBindPolicy":"` + policy + `"}`}
	}
	below := pinning(t, []workload.Container{{Name: "app", CPULimit: 2000, CPURequest: 1000}})
	alone := pinning(t, []workload.Container{{Name: "app", CPULimit: 2000, CPURequest: 1000}}, resourceSpec, `{"requiredCPUBindPolicy":"SpreadByPCPUs","requiredCPUExclusivePolicy":"PCPULevel"}`)
	tight := small.node(t)
	tight.RequestedMilli = 5000
	for _, test := range []struct {
		name     string
		node     placement.Node
		unknown  int64 // CPUs of a pod without a placement
		pod      workload.Pinning
		reason   string
		detail   string
		emptyTo  bool
		forEver  bool
		isPlaced bool
	}{
		{name: "fits", node: small.node(t), pod: one(t, 6), isPlaced: true},
		{name: "no machine", node: placement.Node{AllocatableMilli: 8000}, pod: one(t, 1), reason: "no CPU topology known", detail: "no CPU topology known", forEver: true},
		{name: "promised", node: busy, pod: one(t, 2), reason: "CPUs promised to pinned containers", detail: "CPUs promised to pinned containers: 2 CPUs wanted, 1.500 left", emptyTo: true},
		{name: "promised by the limit", node: busy, pod: below, reason: "CPUs promised to pinned containers", detail: "CPUs promised to pinned containers: 2 CPUs wanted, 1.500 left", emptyTo: true},
		{name: "promised with siblings", node: tight, pod: alone, reason: "CPUs promised to pinned containers", detail: "CPUs promised to pinned containers: 4 CPUs wanted, 3 left", emptyTo: true},
		{name: "promised to who knows where", node: small.node(t), unknown: 5, pod: one(t, 4), reason: "CPUs promised to pinned containers", detail: "CPUs promised to pinned containers: 4 CPUs wanted, 3 left", emptyTo: true},
		{name: "unknown", node: shape{nodes: 1, l3: 1, cores: 4, threads: 2, slow: 1}.node(t), unknown: 3, pod: one(t, 4), reason: "CPUs promised to pods without a placement", detail: "CPUs promised to pods without a placement: 4 CPUs wanted, 3 left", emptyTo: true},
		{name: "unknown, enough left", node: small.node(t), unknown: 3, pod: one(t, 3), isPlaced: true},
		{name: "shared pool", node: small.node(t), pod: one(t, 8), reason: "no whole core left for the shared pool", detail: "no whole core left for the shared pool: 8 CPUs wanted, 8 left"},
		{name: "larger than the node", node: small.node(t), pod: one(t, 9), reason: "CPUs promised to pinned containers", detail: "CPUs promised to pinned containers: 9 CPUs wanted, 8 left"},
		{name: "odd count of whole cores", node: small.node(t), pod: one(t, 3, bind("FullPCPUs")...), reason: "3 CPUs are not whole cores", detail: "3 CPUs are not whole cores: a core has 2 threads"},
		{name: "the node wants whole cores", node: labelled("cpu-bind-policy", "FullPCPUsOnly"), pod: one(t, 3), reason: "3 CPUs are not whole cores", detail: "3 CPUs are not whole cores: a core has 2 threads"},
		{name: "the node spreads", node: labelled("cpu-bind-policy", "SpreadByPCPUs"), pod: one(t, 3), isPlaced: true},
		{name: "bind policies differ", node: labelled("cpu-bind-policy", "FullPCPUsOnly"), pod: one(t, 2, bind("SpreadByPCPUs")...), reason: "CPU bind policy of the node differs from the pod's", detail: "CPU bind policy of the node differs from the pod's", forEver: true},
		{name: "bind policies agree", node: labelled("cpu-bind-policy", "FullPCPUsOnly"), pod: one(t, 2, bind("FullPCPUs")...), isPlaced: true},
		{name: "NUMA policies differ", node: labelled("numa-topology-policy", "Restricted"), pod: one(t, 2, numa("SingleNUMANode")...), reason: "NUMA policy of the node differs from the pod's", detail: "NUMA policy of the node differs from the pod's", forEver: true},
		{name: "NUMA policies agree", node: labelled("numa-topology-policy", "Restricted"), pod: one(t, 2, numa("Restricted")...), isPlaced: true},
		{name: "the node says nothing", node: labelled("numa-topology-policy", ""), pod: one(t, 2, numa("Restricted")...), isPlaced: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			var o placement.Occupancy
			if test.unknown > 0 {
				test.node.RequestedMilli += test.unknown * 1000
				give(&o, test.node.Machine, one(t, test.unknown), "")
			}
			ask := placement.AskOf(test.pod)
			_, got := placement.Decide(&alloc.Scratch{}, test.node, &o, &ask)
			if got.OK() != test.isPlaced || got.String() != test.reason || got.Detail() != test.detail || got.Permanent() != test.forEver {
				t.Errorf("%q, %q, permanent %t", got.String(), got.Detail(), got.Permanent())
			}
			if empty := placement.EmptyWouldDo(&alloc.Scratch{}, test.node, &ask); empty != (test.emptyTo || test.isPlaced) {
				t.Errorf("an empty node would do: %t", empty)
			}
		})
	}
}

func TestPolicyOf(t *testing.T) {
	const prefix = "node.koordinator.sh/"
	got, problems := placement.PolicyOf(map[string]string{prefix + "cpu-bind-policy": "None", prefix + "numa-allocate-strategy": "LeastAllocated"})
	if len(problems) > 0 || got != (placement.NodePolicy{Strategy: alloc.LeastAllocated}) {
		t.Errorf("%+v, %v", got, problems)
	}
	got, problems = placement.PolicyOf(map[string]string{prefix + "numa-allocate-strategy": "DistributeEvenly", prefix + "numa-topology-policy": "BestEffort"})
	want := `field metadata.labels[node.koordinator.sh/numa-allocate-strategy]: value "DistributeEvenly": allowed: one of MostAllocated, LeastAllocated`
	if problems.Error() != want || got.NUMA != "BestEffort" || got.Strategy != alloc.MostAllocated {
		t.Errorf("%+v, %v", got, problems)
	}
}

// TestRoom is the rule for a pod that never heard of CPU sets: go-demo, with
// request 1 and limit 4, hides 3 CPUs from whoever adds up requests.
func TestRoom(t *testing.T) {
	n := shape{nodes: 1, l3: 1, cores: 8, threads: 1, reserved: "7"}.node(t)
	demo := pinning(t, []workload.Container{{Name: "app", CPULimit: 4000, CPURequest: 1000}})
	var o placement.Occupancy
	if got := n.Surplus(&o); got != 7000 {
		t.Errorf("surplus of an empty node %d, want 7000: one CPU is reserved", got)
	}
	d, a := decide(t, n, &o, demo)
	h := d.Held(&a)
	o.Add(n.Machine, &h)
	n.RequestedMilli = demo.Scheduled + 1500
	if got := n.Surplus(&o); got != 1500 {
		t.Errorf("surplus %d, want 7000 - 1000 - 1500 - 3000", got)
	}
	for request, want := range map[int64]bool{0: true, 1500: true, 1501: false} {
		if got := n.Room(&o, request); got.OK() != want {
			t.Errorf("request %d: %q", request, got.Detail())
		}
	}
	n.AllocatableMilli = 6000
	if got := n.Surplus(&o); got != 500 {
		t.Errorf("surplus with less allocatable %d, want 500", got)
	}
	n.RequestedMilli = 9000
	if got := n.Room(&o, 0); !got.OK() {
		t.Errorf("a pod without a request on an overcommitted node: %q", got.Detail())
	}
	n.Machine = nil
	if got := n.Room(&o, 100_000); !got.OK() {
		t.Errorf("an ordinary pod on a node that nobody knows: %q", got.Detail())
	}
}

// TestSharedPool says that the last core stays, and is the one that costs least.
func TestSharedPool(t *testing.T) {
	n := shape{nodes: 1, l3: 1, cores: 4, threads: 2}.node(t)
	var o placement.Occupancy
	give(&o, n.Machine, one(t, 2), written("0-1", "0")) // free: 4, 5, 2, 6, 3, 7
	n.RequestedMilli = 2000
	d, _ := decide(t, n, &o, one(t, 4))
	if want := set(t, "2,4-6"); d.Answer.CPUs != want {
		t.Errorf("4 of 6: %s, want %s, for two whole cores would leave none", d.Answer.CPUs, want)
	}
	if got := refused(t, n, &o, one(t, 5)); got.Code != placement.SharedPool {
		t.Errorf("5 of 6: %q", got.Detail())
	}
}

// TestNarrowed fills the memory of one NUMA node.
func TestNarrowed(t *testing.T) {
	n := shape{nodes: 2, l3: 1, cores: 8, threads: 1, memory: 10 * gi}.node(t)
	p := pinning(t, []workload.Container{{Name: "app", CPULimit: 2000, CPURequest: 2000, MemoryRequest: 4 * gi}})
	var o placement.Occupancy
	for i, want := range []string{"0", "0", "0-1"} { // 4, 8, 12 of 9 GiB
		d, a := decide(t, n, &o, p)
		written := d.Annotation(&a, hash)
		if got := written.Containers["app"].Mems; got != want || !d.Answer.Nodes.Contains(0) {
			t.Errorf("pod %d: mems %s, want %s; CPUs %s", i, got, want, d.Answer.CPUs)
		}
		give(&o, n.Machine, p, written.Encode())
	}
}
