package alloc_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/recorded"
)

// small has 16 CPUs in two NUMA nodes (0-3,8-11 and 4-7,12-15), each with two L3 domains of two cores. The threads of
// core n are CPUs n and n+8.
var small = shape{sockets: 1, nodes: 2, l3s: 2, cores: 2, threads: 2}

func cpus(t testing.TB, list string) cpuset.Set {
	t.Helper()
	s, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func wants(n ...int) (list []alloc.Want) {
	for i, cpus := range n {
		list = append(list, alloc.Want{Name: string(rune('a' + i)), CPUs: cpus})
	}
	return list
}

// policyCase is one request on the small machine.
type policyCase struct {
	name    string
	held    map[string]alloc.Holding // by CPU list
	request alloc.Request
	// want is the expected answer, container by container; empty for a refusal.
	want    string
	dropped alloc.Dropped
	no      string
	detail  string
}

func plainly(list string) map[string]alloc.Holding { return map[string]alloc.Holding{list: {}} }

func policyCases() []policyCase {
	exclusive := func(e alloc.Exclusive, s alloc.Strength, n int) alloc.Request {
		return alloc.Request{Wants: wants(n), Exclusive: e, ExclusiveStrength: s}
	}
	bound := func(b alloc.Bind, s alloc.Strength, n int) alloc.Request {
		return alloc.Request{Wants: wants(n), Bind: b, BindStrength: s}
	}
	device, memory := alloc.Amount{Device: true, Want: 1, Free: []int64{1, 0}}, alloc.Amount{Want: 1, Free: []int64{0, 1}}
	return []policyCase{
		{name: "whole cores", request: alloc.Request{Wants: wants(4)}, want: "0-1,8-9"},
		{name: "odd count", request: alloc.Request{Wants: wants(3)}, want: "0-1,8"},
		{name: "odd count beside a half core", held: plainly("4"), request: alloc.Request{Wants: wants(3)}, want: "5,12-13"},
		{name: "fullest L3 first", held: plainly("4,12"), request: alloc.Request{Wants: wants(2)}, want: "5,13"},
		{name: "emptiest L3 first", held: plainly("4,12"), request: alloc.Request{Wants: wants(2), Strategy: alloc.LeastAllocated}, want: "0,8"},
		{name: "one L3 before whole cores", held: plainly("0,2,4,6"), request: alloc.Request{Wants: wants(3)}, want: "1,8-9"},
		{name: "too many", held: plainly("0-4"), request: alloc.Request{Wants: wants(12)}, no: "fewer than 12 free CPUs", detail: "fewer than 12 free CPUs: there are 11"},
		{name: "no CPUs", request: alloc.Request{}, no: "no CPUs asked for", detail: "no CPUs asked for"},
		{name: "none for a container", request: alloc.Request{Wants: wants(2, 0)}, no: "no CPUs asked for", detail: "no CPUs asked for"},

		{name: "required whole cores", held: plainly("0,1,2,4,5"), request: bound(alloc.FullPCPUs, alloc.Required, 4), want: "6-7,14-15"},
		{name: "required whole cores, odd", request: bound(alloc.FullPCPUs, alloc.Required, 3), no: "3 CPUs are not whole cores", detail: "3 CPUs are not whole cores: a core has 2 threads"},
		{name: "required whole cores, none left", held: plainly("0-6"), request: bound(alloc.FullPCPUs, alloc.Required, 4), no: "fewer than 2 free cores", detail: "fewer than 2 free cores: there are 1"},
		{
			name: "required whole cores, not in one node", held: plainly("0-2,4-6"), no: "fewer than 2 free cores in one NUMA node",
			request: alloc.Request{Wants: wants(4), BindStrength: alloc.Required, NUMA: alloc.SingleNUMANode}, detail: "fewer than 2 free cores in one NUMA node: the most there are is 1",
		},
		{name: "spread", request: bound(alloc.SpreadByPCPUs, alloc.Preferred, 2), want: "0-1"},
		{name: "spread, L3 first", request: bound(alloc.SpreadByPCPUs, alloc.Preferred, 3), want: "0-1,8"},
		{name: "spread, required", held: plainly("0-1"), request: bound(alloc.SpreadByPCPUs, alloc.Required, 5), want: "2-5,8"},
		{name: "spread, required, too many", held: plainly("0,8"), request: bound(alloc.SpreadByPCPUs, alloc.Required, 8), no: "fewer than 8 cores with a free CPU", detail: "fewer than 8 cores with a free CPU: there are 7"},

		{name: "PCPULevel keeps off half cores", held: plainly("0-1"), request: exclusive(alloc.PCPULevel, alloc.Required, 1), want: "2"},
		{name: "PCPULevel keeps others off", held: map[string]alloc.Holding{"0-1": {Exclusive: alloc.PCPULevel}}, request: alloc.Request{Wants: wants(1)}, want: "2"},
		{name: "PCPULevel is given up", held: plainly("0-7"), request: exclusive(alloc.PCPULevel, alloc.Preferred, 2), want: "8-9", dropped: alloc.DroppedExclusive},
		{name: "PCPULevel is not given up", held: plainly("0-6"), request: exclusive(alloc.PCPULevel, alloc.Required, 3), no: "fewer than 3 CPUs on cores without another pod", detail: "fewer than 3 CPUs on cores without another pod: there are 2"},
		{name: "NUMANodeLevel keeps off used nodes", held: plainly("0"), request: exclusive(alloc.NUMANodeLevel, alloc.Required, 2), want: "4,12"},
		{name: "NUMANodeLevel keeps others off", held: map[string]alloc.Holding{"0": {Exclusive: alloc.NUMANodeLevel}}, request: alloc.Request{Wants: wants(2)}, want: "4,12"},
		{name: "NUMANodeLevel, no node", held: plainly("0,4"), request: exclusive(alloc.NUMANodeLevel, alloc.Required, 2), no: "fewer than 2 free CPUs in NUMA nodes without another pinned pod", detail: "fewer than 2 free CPUs in NUMA nodes without another pinned pod: there are 0"},
		{name: "held alone", held: map[string]alloc.Holding{"0": {Exclusive: alloc.NUMANodeLevel}}, request: alloc.Request{Wants: wants(9)}, no: "fewer than 9 free CPUs outside NUMA nodes that a pod holds alone", detail: "fewer than 9 free CPUs outside NUMA nodes that a pod holds alone: there are 8"},

		{name: "best effort crosses", held: plainly("0-1,4-5"), request: alloc.Request{Wants: wants(7)}, want: "2-3,6-7,10-11,14"},
		{name: "restricted does not", held: plainly("0-1,4-5"), request: alloc.Request{Wants: wants(7), NUMA: alloc.Restricted}, no: "fewer than 7 free CPUs in as few NUMA nodes as an empty machine needs", detail: "fewer than 7 free CPUs in as few NUMA nodes as an empty machine needs: the most there are is 6"},
		{name: "restricted, but too large for one", request: alloc.Request{Wants: wants(10), NUMA: alloc.Restricted}, want: "0-4,8-12"},
		{name: "single", held: plainly("0-1,4-5"), request: alloc.Request{Wants: wants(7), NUMA: alloc.SingleNUMANode}, no: "fewer than 7 free CPUs in one NUMA node", detail: "fewer than 7 free CPUs in one NUMA node: the most there are is 6"},
		{name: "preferred node", request: alloc.Request{Wants: wants(2), PreferNodes: cpuset.Set{}.Add(1)}, want: "4,12"},
		{name: "preferred node is full", held: plainly("4-7,12-14"), request: alloc.Request{Wants: wants(2), PreferNodes: cpuset.Set{}.Add(1)}, want: "0,8"},

		{name: "devices before memory", held: plainly("4,12"), request: alloc.Request{Wants: wants(2), Amounts: []alloc.Amount{memory, device}}, want: "0,8"},
		{name: "devices before memory, in any order", held: plainly("4,12"), request: alloc.Request{Wants: wants(2), Amounts: []alloc.Amount{device, memory}}, want: "0,8"},

		{name: "inside keeps crossing out", held: map[string]alloc.Holding{"0": {SingleNUMA: true}}, request: alloc.Request{Wants: wants(9)}, no: "fewer than 9 free CPUs apart from pods that exclude each other", detail: "fewer than 9 free CPUs apart from pods that exclude each other: there are 8"},
		{name: "crossing keeps inside out", held: map[string]alloc.Holding{"0,4": {SingleNUMA: true}}, request: alloc.Request{Wants: wants(2)}, no: "fewer than 2 free CPUs apart from pods that exclude each other", detail: "fewer than 2 free CPUs apart from pods that exclude each other: there are 0"},
		{name: "asker stays off crossing", held: map[string]alloc.Holding{"0,4": {}}, request: alloc.Request{Wants: wants(2), NUMAExclusive: alloc.NUMAExclusivePreferred}, want: "1,9", dropped: alloc.DroppedNUMAExclusive},

		{name: "one L3", held: plainly("0-2"), request: alloc.Request{Wants: wants(4), Domain: alloc.OneL3ElseNUMA}, want: "4-5,12-13"},
		{name: "no L3, one node", held: plainly("0,2,4,6"), request: alloc.Request{Wants: wants(4), Domain: alloc.OneL3ElseNUMA}, want: "1,3,9,11"},
		{name: "no domain", held: plainly("0,2,4,6"), request: alloc.Request{Wants: wants(7), Domain: alloc.OneL3ElseNUMA}, no: "fewer than 7 free CPUs in one L3 or NUMA node", detail: "fewer than 7 free CPUs in one L3 or NUMA node: the most there are is 6"},

		{name: "containers by size", request: alloc.Request{Wants: wants(1, 4, 3)}, want: "11 0-1,8-9 2-3,10"},
		{name: "containers by name", request: alloc.Request{Wants: []alloc.Want{{Name: "b", CPUs: 2}, {Name: "a", CPUs: 2}}}, want: "1,9 0,8"},
	}
}

func TestPolicies(t *testing.T) {
	m := compile(t, small.topology())
	var s alloc.Scratch
	for _, c := range policyCases() {
		t.Run(c.name, func(t *testing.T) {
			var taken alloc.Taken
			for list, h := range c.held {
				h.CPUs = cpus(t, list)
				m.Hold(&taken, h)
			}
			a, no := m.Allocate(&s, &taken, &c.request)
			var each []string
			for _, part := range a.Each {
				each = append(each, part.String())
			}
			if got := strings.Join(each, " "); got != c.want || a.Dropped != c.dropped {
				t.Errorf("got %q, dropped %d, want %q, dropped %d", got, a.Dropped, c.want, c.dropped)
			}
			if no.String() != c.no || no.Detail() != c.detail {
				t.Errorf("refused with %q, %q; want %q, %q", no, no.Detail(), c.no, c.detail)
			}
		})
	}
}

func TestEmptyMachineRefuses(t *testing.T) {
	m := compile(t, small.topology())
	var s alloc.Scratch
	for _, c := range []struct {
		request alloc.Request
		no      string
	}{
		{request: alloc.Request{Wants: wants(16)}},
		{alloc.Request{Wants: wants(17)}, "fewer than 17 free CPUs"},
		{alloc.Request{Wants: wants(9), NUMA: alloc.SingleNUMANode}, "fewer than 9 free CPUs in one NUMA node"},
		{request: alloc.Request{Wants: wants(9), NUMA: alloc.Restricted}},
		{request: alloc.Request{Wants: wants(8), Domain: alloc.OneL3ElseNUMA}},
		{alloc.Request{Wants: wants(9), Domain: alloc.OneL3ElseNUMA}, "fewer than 9 free CPUs in one L3 or NUMA node"},
		{alloc.Request{Wants: wants(9), Bind: alloc.SpreadByPCPUs, BindStrength: alloc.Required}, "fewer than 9 cores with a free CPU"},
		{alloc.Request{Wants: wants(2, 3), BindStrength: alloc.Required}, "3 CPUs are not whole cores"},
		{request: alloc.Request{Wants: wants(16), Exclusive: alloc.NUMANodeLevel, ExclusiveStrength: alloc.Required}},
	} {
		if _, no := m.Allocate(&s, &alloc.Taken{}, &c.request); no.String() != c.no {
			t.Errorf("%+v: %q, want %q", c.request, no, c.no)
		}
	}
}

// TestWhatIsNeverGivenOut: reserved, isolated and efficiency CPUs are not given out.
func TestWhatIsNeverGivenOut(t *testing.T) {
	top := small.topology()
	top.Reserved, top.Isolated = cpus(t, "0"), cpus(t, "1")
	for i := range top.Cores {
		if i >= 4 {
			top.Cores[i].Kind = "efficiency"
		}
	}
	m := compile(t, top)
	if got := m.Pinnable().String(); got != "2-15" {
		t.Errorf("pinnable: %s", got)
	}
	var s alloc.Scratch
	for _, c := range []struct {
		request alloc.Request
		want    string
	}{
		{alloc.Request{Wants: wants(6)}, "2-3,8-11"},
		{alloc.Request{Wants: wants(7)}, ""},
		{alloc.Request{Wants: wants(7), EfficiencyCores: true}, "4-7,12-14"},
		{alloc.Request{Wants: wants(4), BindStrength: alloc.Required}, "2-3,10-11"},
		{alloc.Request{Wants: wants(1), Exclusive: alloc.PCPULevel, ExclusiveStrength: alloc.Required}, "2"},
	} {
		if a, _ := m.Allocate(&s, &alloc.Taken{}, &c.request); a.CPUs.String() != c.want {
			t.Errorf("%+v: %s, want %s", c.request, a.CPUs, c.want)
		}
	}
}

func TestWhy(t *testing.T) {
	m := compile(t, small.topology())
	var s alloc.Scratch
	var taken alloc.Taken
	m.Hold(&taken, alloc.Holding{CPUs: cpus(t, "0,2,4,6")})
	a, no := m.Allocate(&s, &taken, &alloc.Request{Wants: wants(4), Exclusive: alloc.PCPULevel, PreferNodes: cpuset.Set{}.Add(0).Add(1)})
	if no.Code != alloc.Placed {
		t.Fatal(no)
	}
	want := []alloc.Reason{
		{Term: "numaNodes", Value: 1, Best: 1, Text: "in 1 NUMA node"},
		{Term: "offPreferred", Value: 0, Best: 0, Text: "no CPU outside the preferred NUMA nodes"},
		{Term: "l3s", Value: 2, Best: 1, Text: "in 2 L3 domains (1 on the empty machine)"},
		{Term: "split", Value: 0, Best: 0, Text: "no core held partly"},
		{Term: "broken", Value: 0, Best: 0, Text: "no core broken up that was wholly free"},
		{Term: "freeL3", Value: 2, Best: 0, Text: "2 CPUs left free in its L3 domains (0 on the empty machine)"},
		{Term: "freeNUMA", Value: 2, Best: 4, Text: "2 CPUs left free in its NUMA nodes (4 on the empty machine)"},
		{Term: "freeSocket", Value: 8, Best: 12, Text: "8 CPUs left free in its sockets (12 on the empty machine)"},
	}
	if diff := cmp.Diff(want, a.Why()); diff != "" {
		t.Error(diff)
	}
	m.Hold(&taken, alloc.Holding{CPUs: cpus(t, "1,3,5,7")})
	a, _ = m.Allocate(&s, &taken, &alloc.Request{
		Wants: wants(5), Bind: alloc.SpreadByPCPUs, Exclusive: alloc.PCPULevel,
	})
	want = []alloc.Reason{
		{Term: "numaNodes", Value: 2, Best: 1, Text: "in 2 NUMA nodes (1 on the empty machine)"},
		{Term: "sockets", Value: 1, Best: 1, Text: "in 1 socket"},
		{Term: "distance", Value: 12, Best: 0, Text: "12 units of distance between its NUMA nodes (0 on the empty machine)"},
		{Term: "l3s", Value: 3, Best: 2, Text: "in 3 L3 domains (2 on the empty machine)"},
		{Term: "cores", Value: 5, Best: 4, Text: "on 5 cores (4 on the empty machine)"},
		{Term: "freeL3", Value: 1, Best: 3, Text: "1 CPU left free in its L3 domains (3 on the empty machine)"},
		{Term: "freeNUMA", Value: 3, Best: 3, Text: "3 CPUs left free in its NUMA nodes"},
		{Term: "freeSocket", Value: 3, Best: 11, Text: "3 CPUs left free in its sockets (11 on the empty machine)"},
		{Term: "exclusive", Value: 0, Best: 1, Text: "not exclusive: nothing free allows it, and it was only preferred"},
	}
	if diff := cmp.Diff(want, a.Why()); diff != "" {
		t.Error(diff)
	}
	if (&alloc.Answer{}).Why() != nil {
		t.Error("reasons for no answer")
	}
}

// TestNearNodes has eight NUMA nodes in two sockets, and nodes 0 and 4 are partly in use. A pod that needs two nodes
// gets two of one socket, although the fragments in two sockets would leave fewer CPUs free.
func TestNearNodes(t *testing.T) {
	top := shape{sockets: 2, nodes: 4, l3s: 1, cores: 4, threads: 2}.topology()
	m := compile(t, top)
	for _, alike := range []bool{false, true} {
		var s alloc.Scratch
		var taken alloc.Taken
		if alike { // sockets decide
			for i := range top.Nodes {
				for j := range top.Nodes {
					top.Nodes[i].Distances[j] = 20
				}
			}
			m = compile(t, top)
		}
		m.Hold(&taken, alloc.Holding{CPUs: cpus(t, "0,32,16,48")})
		for _, strategy := range []alloc.Strategy{alloc.MostAllocated, alloc.LeastAllocated} {
			a, no := m.Allocate(&s, &taken, &alloc.Request{Wants: wants(12), Strategy: strategy})
			if no.Code != alloc.Placed || a.Vector.NUMANodes != 2 || a.Vector.Sockets != 1 {
				t.Errorf("distances alike %t, strategy %d: %s %q, %+v", alike, strategy, a.Nodes, no, a.Vector)
			}
		}
	}
}

// TestDies asks for two of four NUMA nodes at equal distances. The answer is the two nodes of one die, although other
// nodes have lower numbers or are fuller.
func TestDies(t *testing.T) {
	top := shape{sockets: 1, nodes: 4, l3s: 2, cores: 4, threads: 2}.topology()
	for i := range top.Nodes {
		for j := range top.Nodes {
			top.Nodes[i].Distances[j] = 10 + 10*min(1, max(i-j, j-i))
		}
	}
	top.Dies = []topology.Die{
		{ID: 0, CPUs: cpus(t, "0-7,32-39,16-23,48-55")},
		{ID: 1, CPUs: cpus(t, "8-15,40-47,24-31,56-63")},
	}
	m := compile(t, top)
	var s alloc.Scratch
	for _, held := range []string{"", "8-13,40-45", "16-17"} {
		var taken alloc.Taken
		m.Hold(&taken, alloc.Holding{CPUs: cpus(t, held)})
		for _, strategy := range []alloc.Strategy{alloc.MostAllocated, alloc.LeastAllocated} {
			a, no := m.Allocate(&s, &taken, &alloc.Request{Wants: wants(20), Strategy: strategy})
			inside := slices.ContainsFunc(top.Dies, func(die topology.Die) bool { return a.CPUs.IsSubsetOf(die.CPUs) })
			if no.Code != alloc.Placed || a.Vector.NUMANodes != 2 || a.Vector.Dies != 1 || !inside {
				t.Errorf("beside %q, strategy %d: CPUs %s in nodes %s, %+v %q", held, strategy, a.CPUs, a.Nodes, a.Vector, no)
			}
		}
	}
	// A recorded machine in which each die is a NUMA node.
	a, no := compile(t, recorded.Machines(t)["vm-8n"]).Allocate(&s, &alloc.Taken{}, &alloc.Request{Wants: wants(3)})
	if no.Code != alloc.Placed || a.Vector.NUMANodes != 2 || a.Vector.Dies != 2 || a.Vector.Sockets != 1 {
		t.Errorf("recorded: CPUs %s, %+v %q", a.CPUs, a.Vector, no)
	}
}

// TestDistributeEvenly asks for more than a NUMA node has: 9 cores become 5 and 4. A request that fits into one node
// stays in it.
func TestDistributeEvenly(t *testing.T) {
	m := compile(t, shape{sockets: 2, nodes: 2, l3s: 2, cores: 4, threads: 2}.topology())
	var s alloc.Scratch
	for _, c := range []struct {
		held, each string
		wants      []alloc.Want
		strength   alloc.Strength
	}{
		{each: "0-4,32-36 8-11,40-43", wants: wants(18)},
		{each: "0-4,32-36 8-11,40-43", wants: wants(18), strength: alloc.Required},
		{each: "0-5,32-37 8-13,40-45 16-20,48-52", wants: wants(34)},
		{each: "0-7,32-39", wants: wants(16)},
		{held: "0-6", each: "16-20,48-52 24-27,56-59", wants: wants(18)},
	} {
		var taken alloc.Taken
		m.Hold(&taken, alloc.Holding{CPUs: cpus(t, c.held)})
		a, no := m.Allocate(&s, &taken, &alloc.Request{Wants: c.wants, BindStrength: c.strength, Strategy: alloc.DistributeEvenly})
		var parts []string
		for node := range 4 {
			var here cpuset.Set
			for _, core := range m.Topology().Cores {
				if int(core.Node) == node {
					here = here.Union(core.CPUs.Intersect(a.CPUs))
				}
			}
			if !here.IsEmpty() {
				parts = append(parts, here.String())
			}
		}
		if got := strings.Join(parts, " "); got != c.each || no.Code != alloc.Placed {
			t.Errorf("%v beside %q: %s %q, want %s", c.wants, c.held, got, no, c.each)
		}
	}
}

// TestContainersStayWhole has two containers of six CPUs and L3 domains of eight. Each container gets its own domain,
// although another choice of twelve CPUs would leave fewer free.
func TestContainersStayWhole(t *testing.T) {
	m := compile(t, shape{sockets: 1, nodes: 2, l3s: 2, cores: 4, threads: 2}.topology())
	var s alloc.Scratch
	a, no := m.Allocate(&s, &alloc.Taken{}, &alloc.Request{Wants: wants(6, 6)})
	if no.Code != alloc.Placed || a.Each[0].String() != "0-2,16-18" || a.Each[1].String() != "4-6,20-22" || a.CPUs != a.Each[0].Union(a.Each[1]) {
		t.Errorf("%v of %s %q", a.Each, a.CPUs, no)
	}
}

// TestNoAllocation: the hot path allocates nothing once the Scratch is warm.
func TestNoAllocation(t *testing.T) {
	m := compile(t, large.topology())
	taken := fragmented(m, newDice(1), "threads")
	for _, r := range []alloc.Request{
		{Wants: wants(5)},
		{Wants: wants(100)},
		{Wants: wants(9, 30, 3, 3)},
		{Wants: wants(6, 4), Bind: alloc.SpreadByPCPUs, Strategy: alloc.LeastAllocated},
		{Wants: wants(16), BindStrength: alloc.Required, NUMA: alloc.Restricted},
		{Wants: wants(7), Domain: alloc.OneL3ElseNUMA, Exclusive: alloc.PCPULevel},
		{Wants: wants(60), PreferNodes: cpuset.Set{}.Add(3)},
		{Wants: wants(90), NUMA: alloc.SingleNUMANode},
		{Wants: wants(400)},
	} {
		var s alloc.Scratch
		m.Allocate(&s, &taken, &r)
		if n := testing.AllocsPerRun(20, func() { m.Allocate(&s, &taken, &r) }); n > 0 {
			t.Errorf("%+v: %v allocations", r, n)
		}
	}
}
