package placement_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/test/recorded"
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
	below := pinning(t, []workload.Container{{Name: "app", Resources: workload.Resources{CPULimit: 2000, CPURequest: 1000}}})
	alone := pinning(t, []workload.Container{{Name: "app", Resources: workload.Resources{CPULimit: 2000, CPURequest: 1000}}}, resourceSpec, `{"requiredCPUBindPolicy":"SpreadByPCPUs","requiredCPUExclusivePolicy":"PCPULevel"}`)
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
		{name: "no machine", node: placement.Node{AllocatableMilli: 8000}, pod: one(t, 1), reason: "no known CPU topology", detail: "no known CPU topology", forEver: true},
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
		{name: "bind policies differ", node: labelled("cpu-bind-policy", "FullPCPUsOnly"), pod: one(t, 2, bind("SpreadByPCPUs")...), reason: "another CPU bind policy than the pod's", detail: "another CPU bind policy than the pod's", forEver: true},
		{name: "bind policies agree", node: labelled("cpu-bind-policy", "FullPCPUsOnly"), pod: one(t, 2, bind("FullPCPUs")...), isPlaced: true},
		{name: "NUMA policies differ", node: labelled("numa-topology-policy", "Restricted"), pod: one(t, 2, numa("SingleNUMANode")...), reason: "another NUMA policy than the pod's", detail: "another NUMA policy than the pod's", forEver: true},
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
			if never := placement.Never(&alloc.Scratch{}, test.node, &ask); never.OK() != (test.emptyTo || test.isPlaced) {
				t.Errorf("the empty node: %s", never)
			}
		})
	}
}

func TestPolicyOf(t *testing.T) {
	const prefix = "node.koordinator.sh/"
	got, problems := placement.PolicyOf(map[string]string{prefix + "cpu-bind-policy": "None", prefix + "numa-allocate-strategy": "LeastAllocated"})
	if len(problems) > 0 || got != (placement.NodePolicy{Strategy: v1alpha1.NUMALeastAllocated}) {
		t.Errorf("%+v, %v", got, problems)
	}
	got, problems = placement.PolicyOf(map[string]string{prefix + "numa-allocate-strategy": "Evenly", prefix + "numa-topology-policy": "BestEffort"})
	want := `field metadata.labels[node.koordinator.sh/numa-allocate-strategy]: value "Evenly": allowed: one of MostAllocated, LeastAllocated, DistributeEvenly`
	if problems.Error() != want || got.NUMA != "BestEffort" || got.Strategy != "" {
		t.Errorf("%+v, %v", got, problems)
	}
}

// TestRoom checks the accounting rule for ordinary pods. go-demo has request 1 and limit 4, so it hides 3 CPUs from the
// sum of requests.
func TestRoom(t *testing.T) {
	n := shape{nodes: 1, l3: 1, cores: 8, threads: 1, reserved: "7"}.node(t)
	demo := pinning(t, []workload.Container{{Name: "app", Resources: workload.Resources{CPULimit: 4000, CPURequest: 1000}}})
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
		t.Errorf("an ordinary pod on a node that is not known: %q", got.Detail())
	}
}

// TestSharedPool: the last core stays in the shared pool, and it is the core that costs least.
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

// TestNarrowed fills the memory of one NUMA node and then of the other.
func TestNarrowed(t *testing.T) {
	n := shape{nodes: 2, l3: 1, cores: 8, threads: 1, memory: 10 * gi}.node(t)
	p := pinning(t, []workload.Container{{Name: "app", Resources: workload.Resources{CPULimit: 2000, CPURequest: 2000, MemoryRequest: 4 * gi}}})
	var o placement.Occupancy
	for i, want := range []string{"0", "0", "1", "1", "0-1"} { // 4 and 8 of 9 GiB each, and no room for 4 more
		d, a := decide(t, n, &o, p)
		written := d.Annotation(&a, hash)
		if got := written.Containers["app"].Mems; got != want || want != "0-1" && got != d.Answer.Nodes.String() {
			t.Errorf("pod %d: mems %s, want %s; CPUs %s", i, got, want, d.Answer.CPUs)
		}
		give(&o, n.Machine, p, written.Encode())
	}
}

// TestDecisionIsItsOwn: a decision stays valid after the next use of its Scratch.
func TestDecisionIsItsOwn(t *testing.T) {
	n := shape{nodes: 2, l3: 2, cores: 4, threads: 2}.node(t)
	var s alloc.Scratch
	first := placement.AskOf(pinning(t, []workload.Container{app("a", 4), app("b", 2)}, "cpu-policy", "static-burst"))
	second := placement.AskOf(pinning(t, []workload.Container{app("a", 7), app("b", 5)}))
	d, refusal := placement.Decide(&s, n, &placement.Occupancy{}, &first)
	if !refusal.OK() {
		t.Fatal(refusal)
	}
	before := d.Annotation(&first, hash)
	var o placement.Occupancy
	h := d.Held(&first)
	o.Add(n.Machine, &h)
	if _, refusal := placement.Decide(&s, n, &o, &second); !refusal.OK() {
		t.Fatal(refusal)
	}
	if diff := cmp.Diff(before, d.Annotation(&first, hash)); diff != "" {
		t.Errorf("another decision changed it (-before +after):\n%s", diff)
	}
}

// TestNarrowedTogether: two containers fit into a NUMA node's memory one by one, but not together.
func TestNarrowedTogether(t *testing.T) {
	n := shape{nodes: 2, l3: 1, cores: 8, threads: 1, memory: 10 * gi}.node(t)
	c := workload.Container{Resources: workload.Resources{CPULimit: 2000, CPURequest: 2000, MemoryRequest: 5 * gi}}
	a, b := c, c
	a.Name, b.Name = "a", "b"
	var o placement.Occupancy
	d, ask := decide(t, n, &o, pinning(t, []workload.Container{a, b}))
	got := d.Annotation(&ask, hash).Containers
	if got["a"].Mems != "0" || got["b"].Mems != "0-1" {
		t.Errorf("%+v", got)
	}
}

// TestClone: a trial on a copy leaves the original unchanged.
func TestClone(t *testing.T) {
	n := shape{nodes: 2, l3: 1, cores: 8, threads: 1, memory: 10 * gi}.node(t)
	p := pinning(t, []workload.Container{{Name: "app", Resources: workload.Resources{CPULimit: 1000, CPURequest: 1000, MemoryRequest: 4 * gi}}})
	var o, alone placement.Occupancy
	give(&o, n.Machine, p, written("0", "0"))
	give(&alone, n.Machine, p, written("0", "0"))
	c := o.Clone()
	give(&c, n.Machine, p, written("1", "0"))
	if !cmp.Equal(o, alone, same) || cmp.Equal(o, c, same) {
		t.Errorf("original %+v, copy %+v", o, c)
	}
}

// TestNodePolicyCounts: a node's policy applies to pods without their own policy.
func TestNodePolicyCounts(t *testing.T) {
	n := shape{nodes: 2, l3: 2, cores: 4, threads: 1}.node(t)
	var o placement.Occupancy
	give(&o, n.Machine, one(t, 1), written("0", "0"))
	tight, _ := decide(t, n, &o, one(t, 2))
	n.Policy.Strategy = v1alpha1.NUMALeastAllocated
	loose, _ := decide(t, n, &o, one(t, 2))
	if tight.Answer.CPUs != set(t, "1-2") || loose.Answer.CPUs != set(t, "8-9") || placement.Score(&loose) == placement.Score(&tight) {
		t.Errorf("packed %s, spread %s", tight.Answer.CPUs, loose.Answer.CPUs)
	}
	big := one(t, 9)
	decide(t, n, &o, big)
	n.Policy.NUMA = v1alpha1.NUMASingleNUMANode
	if got := refused(t, n, &o, big); got.Code != placement.Allocation {
		t.Errorf("9 CPUs of nodes with 8: %q", got.Detail())
	}
	n.Policy, n.PreferNodes = placement.NodePolicy{}, set(t, "1")
	if d, _ := decide(t, n, &o, one(t, 2)); !d.Answer.Nodes.Contains(1) {
		t.Errorf("devices in NUMA node 1, CPUs %s", d.Answer.CPUs)
	}
}

// TestStrategyOrder: the pod's strategy takes precedence over the node's, and the node's over the scheduler's.
func TestStrategyOrder(t *testing.T) {
	n := shape{nodes: 2, l3: 2, cores: 4, threads: 1}.node(t)
	var o placement.Occupancy
	give(&o, n.Machine, one(t, 1), written("0", "0"))
	for _, test := range []struct {
		pod, node, scheduler v1alpha1.NUMAAllocateStrategy
		want                 string
	}{
		{"", "", "", "1-2"},
		{"", "", v1alpha1.NUMALeastAllocated, "8-9"},
		{"", v1alpha1.NUMAMostAllocated, v1alpha1.NUMALeastAllocated, "1-2"},
		{v1alpha1.NUMALeastAllocated, v1alpha1.NUMAMostAllocated, "", "8-9"},
		{v1alpha1.NUMAMostAllocated, v1alpha1.NUMALeastAllocated, v1alpha1.NUMALeastAllocated, "1-2"},
		{v1alpha1.NUMADistributeEvenly, v1alpha1.NUMALeastAllocated, "", "1-2"},
	} {
		p := one(t, 2)
		p.Strategy, n.Policy.Strategy = test.pod, test.node
		ask := placement.AskOf(p)
		plain := ask.Shape
		ask.Default(test.scheduler)
		var s alloc.Scratch
		d, refusal := placement.Decide(&s, n, &o, &ask)
		if d.Answer.CPUs.String() != test.want || !refusal.OK() {
			t.Errorf("%+v: %s %q", test, d.Answer.CPUs, refusal)
		}
		if changes := test.pod == "" && test.scheduler == v1alpha1.NUMALeastAllocated; changes != (ask.Shape != plain) {
			t.Errorf("%+v: shape %q, before %q", test, ask.Shape, plain)
		}
	}
}

// TestRecordedMachines fills each recorded machine with pods of 3 CPUs. Every annotation must be readable and valid, up
// to the last pod.
func TestRecordedMachines(t *testing.T) {
	for name, top := range recorded.Machines(t) {
		m, err := alloc.Compile(top)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		t.Run(name, func(t *testing.T) { fill(t, m) })
	}
}

func fill(t *testing.T, m *alloc.Machine) {
	p := pinning(t, []workload.Container{{Name: "app", Resources: workload.Resources{CPULimit: 3000, CPURequest: 3000, MemoryRequest: 1 << 20}}})
	ask := placement.AskOf(p)
	n := placement.Node{Machine: m, AllocatableMilli: int64(m.Topology().Online.Size()) * 1000}
	var o placement.Occupancy
	for pods := 0; ; pods++ {
		d, refusal := placement.Decide(&alloc.Scratch{}, n, &o, &ask)
		if !refusal.OK() {
			if left := m.Pinnable().Difference(o.Taken.CPUs()).Size(); pods == 0 && left > 3+8 {
				t.Errorf("not one pod on %d CPUs: %s", left, refusal.Detail())
			}
			return
		}
		h := give(&o, m, p, d.Annotation(&ask, m.Topology().Hash()).Encode())
		if h.Unknown() != 0 || h.CPUs().Size() != 3 || !o.Overlaps.IsEmpty() {
			t.Fatalf("pod %d: %d CPUs unknown, %s held, %s twice", pods, h.Unknown(), h.CPUs(), o.Overlaps)
		}
		n.RequestedMilli += p.Scheduled
	}
}

// TestInitContainersCover: requests of init containers and of the pod as a whole do not count in addition to the held
// CPUs. Only one of them is in use at a time.
func TestInitContainersCover(t *testing.T) {
	n := shape{nodes: 1, l3: 1, cores: 16, threads: 2}.node(t)
	for name, p := range map[string]workload.Pod{
		"init": {Containers: []workload.Container{{Name: "app", Resources: workload.Resources{CPULimit: 20_000, CPURequest: 1000}}}, Init: []workload.Container{{Name: "init", Resources: workload.Resources{CPURequest: 20_000}}}, Scheduled: 20_000},
		"pod":  {Containers: []workload.Container{{Name: "app", Resources: workload.Resources{CPULimit: 20_000, CPURequest: 1000}}}, Resources: workload.Resources{CPURequest: 20_000}, Scheduled: 20_000},
	} {
		p.Annotations = map[string]string{"cpuset-scheduler": "true"}
		pin, _ := workload.PinningOf(p)
		var o placement.Occupancy
		d, a := decide(t, n, &o, pin)
		h := d.Held(&a)
		if h.ExtraMilli() != 0 || a.HiddenMilli() != 0 {
			t.Errorf("%s: extra %d, hidden %d", name, h.ExtraMilli(), a.HiddenMilli())
		}
	}
}

// TestHidden checks how many of its CPUs a pod gets beyond its request.
func TestHidden(t *testing.T) {
	for name, test := range map[string]struct {
		pod  workload.Pinning
		want int64
	}{
		"all requested":     {one(t, 2), 0},
		"below":             {pinning(t, []workload.Container{{Name: "app", Resources: workload.Resources{CPULimit: 2000, CPURequest: 500}}}), 1500},
		"rounded up":        {pinning(t, []workload.Container{{Name: "app", Resources: workload.Resources{CPULimit: 2500, CPURequest: 2500}}}, "cpu-policy", "static-burst"), 0},
		"rounded up, below": {pinning(t, []workload.Container{{Name: "app", Resources: workload.Resources{CPULimit: 2500, CPURequest: 1000}}}, "cpu-policy", "static-burst"), 1500},
	} {
		a := placement.AskOf(test.pod)
		if got := a.HiddenMilli(); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}
