package rival_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/proof/rival"
	"github.com/berth-project/berth/internal/value/cpuset"
	_ "github.com/berth-project/berth/test/chance" // fixes the cases of the properties
)

// shape builds a symmetric machine. CPUs are numbered as on x86: all first
// threads by core, then all second ones.
type shape struct{ sockets, nodes, l3s, cores, threads int }

func (s shape) topology() *topology.Topology {
	t := &topology.Topology{}
	total := s.sockets * s.nodes * s.l3s * s.cores
	for core := range total {
		l3 := core / s.cores
		node := l3 / s.l3s
		socket := node / s.nodes
		var cpus cpuset.Set
		for thread := range s.threads {
			cpus = cpus.Add(thread*total + core)
		}
		t.Online = t.Online.Union(cpus)
		t.Cores = append(t.Cores, topology.Core{
			ID: topology.CoreID(core), CPUs: cpus,
			Socket: topology.SocketID(socket), Node: topology.NodeID(node), L3: topology.L3ID(l3),
		})
		if core%s.cores == 0 {
			t.L3 = append(t.L3, topology.L3{ID: topology.L3ID(l3)})
		}
		if core%(s.cores*s.l3s) == 0 {
			t.Nodes = append(t.Nodes, topology.Node{ID: topology.NodeID(node)})
		}
		if core%(s.cores*s.l3s*s.nodes) == 0 {
			t.Sockets = append(t.Sockets, topology.Socket{ID: topology.SocketID(socket)})
		}
		t.L3[l3].CPUs = t.L3[l3].CPUs.Union(cpus)
		t.Nodes[node].CPUs = t.Nodes[node].CPUs.Union(cpus)
		t.Sockets[socket].CPUs = t.Sockets[socket].CPUs.Union(cpus)
	}
	return t
}

func compile(t rapid.TB, topo *topology.Topology) *rival.Machine {
	t.Helper()
	m, err := rival.Compile(topo)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func set(t *testing.T, list string) cpuset.Set {
	t.Helper()
	s, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// picker is what the tables run.
type picker interface {
	Pick(m *rival.Machine, free cpuset.Set, n int) (cpuset.Set, bool)
}

type pick struct {
	name    string
	machine shape
	picker  picker
	used    string // not free
	n       int
	want    string // "refused"
}

// The machines of the tables.
var (
	// small: node 0 has 0-3,8-11 (L3 0: cores 0,1; L3 1: cores 2,3), node 1 has
	// 4-7,12-15; the sibling of CPU c is c+8.
	small = shape{sockets: 2, nodes: 1, l3s: 2, cores: 2, threads: 2}
	// split: one socket with two nodes of 4 cores, as with NPS2; siblings c+8.
	split = shape{sockets: 1, nodes: 2, l3s: 2, cores: 2, threads: 2}
	// quad: two sockets of two nodes of 2 cores without SMT.
	quad = shape{sockets: 2, nodes: 2, l3s: 1, cores: 2, threads: 1}
)

func run(t *testing.T, cases []pick) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := compile(t, c.machine.topology())
			got, ok := c.picker.Pick(m, m.CPUs().Difference(set(t, c.used)), c.n)
			text := got.String()
			if !ok {
				text = "refused"
			}
			if text != c.want {
				t.Errorf("picked %s, want %s", text, c.want)
			}
		})
	}
}

func TestKubelet(t *testing.T) {
	plain, uncore := rival.Kubelet{}, rival.Kubelet{AlignByUncore: true}
	run(t, []pick{
		{"a whole socket", small, plain, "", 8, "0-3,8-11"},
		{"a whole socket where the other is used", small, plain, "0", 8, "4-7,12-15"},
		{"a whole node of a whole socket's room", split, plain, "", 8, "0-3,8-11"},
		{"a whole node past a broken one", split, plain, "0", 8, "4-7,12-15"},
		{"a socket and a node", quad, plain, "", 6, "0-5"},
		{"whole cores before threads", small, plain, "8", 2, "1,9"},
		{"the fullest node first, though it cannot hold all", small, plain, "0-2,8-10", 4, "3-4,11-12"},
		{"the odd thread breaks no core if one is broken", small, plain, "8", 3, "0-1,9"},
		{"an odd thread alone", small, plain, "8,12", 1, "0"},
		{"threads when no core is whole", small, plain, "8-15", 3, "0-2"},
		{"all of it", small, plain, "", 16, "0-15"},
		{"too many", small, plain, "3", 16, "refused"},

		{"no thought of the L3", small, plain, "0,8", 4, "1-2,9-10"},
		{"the L3 that holds it", small, uncore, "0,8", 4, "2-3,10-11"},
		{"a whole L3, then a part", small, uncore, "", 6, "0-2,8-10"},
		{"the fullest L3 with room", small, uncore, "2,10", 2, "3,11"},
		{"an L3 whose lowest cores do not make the number is passed over", small, uncore, "8", 2, "2,10"},
		{"an odd number in one L3", small, uncore, "", 3, "0-1,8"},
		{"one of a core that is half used", small, uncore, "8", 1, "0"},
		{"no L3 has room", small, uncore, "0,2,4,6,8,10,12,14", 4, "1,3,9,11"},
	})
}

func TestKubeletFullPCPUsOnly(t *testing.T) {
	whole := rival.Kubelet{FullPCPUsOnly: true}
	run(t, []pick{
		{"an odd number", small, whole, "", 3, "refused"},
		{"an even number", small, whole, "0,8", 2, "1,9"},
		{"no SMT, no odd number", quad, whole, "", 3, "0-2"},
	})
	topo := small.topology()
	topo.Reserved = set(t, "0")
	m := compile(t, topo)
	if _, ok := whole.Pick(m, m.CPUs(), 14); !ok {
		t.Error("14 whole free CPUs refused")
	}
	if got, ok := whole.Pick(m, m.CPUs().Remove(1).Remove(9), 14); ok {
		t.Errorf("picked %s, which includes the sibling of a reserved CPU", got)
	}
}

func TestKubeletTopology(t *testing.T) {
	best := rival.Kubelet{Topology: rival.BestEffort}
	restricted := rival.Kubelet{Topology: rival.Restricted}
	single := rival.Kubelet{Topology: rival.SingleNUMANode}
	run(t, []pick{
		{"the node that holds it, not the fullest", small, best, "0-2,8-10", 4, "4-5,12-13"},
		{"of two nodes the lower, not the fuller", small, best, "4,12", 2, "0,8"},
		{"both if neither does", small, best, "0,4", 8, "1-3,5,9-11,13"},
		{"restricted takes two where one cannot", small, restricted, "", 10, "0-4,8-12"},
		{"restricted refuses two where one could", small, restricted, "0,4", 8, "refused"},
		{"single", small, single, "0-2,8-10", 4, "4-5,12-13"},
		{"single refuses two where one could", small, single, "0,4", 8, "refused"},
		{"single refuses what no node holds", small, single, "", 10, "refused"},
		{"more nodes than the kubelet starts with", shape{9, 1, 1, 1, 1}, best, "", 1, "refused"},
	})
}

func TestKoordinator(t *testing.T) {
	least, most := rival.Koordinator{}, rival.Koordinator{MostAllocated: true}
	run(t, []pick{
		{"least: the emptiest node", small, least, "0,8", 2, "4,12"},
		{"most: the fullest node", small, most, "4,12", 2, "5,13"},
		{"most: the fullest node that holds it", small, most, "0-2,8-10", 4, "4-5,12-13"},
		{"whole cores of one node", small, most, "8-10", 4, "4-5,12-13"},
		{"a whole node before a broken socket", quad, most, "0,2", 2, "4-5"},
		{"a socket of two nodes", quad, most, "0,2,4,6", 2, "1,3"},
		{"anywhere, fullest node first", small, most, "0-2,8-10", 10, "3-7,11-15"},
		{"threads when there is no whole core", small, most, "8-15", 2, "0-1"},
		{"the odd thread breaks no core if one is broken", small, most, "8", 3, "0-1,9"},
		{"no thought of the L3", small, most, "0,8", 4, "1-2,9-10"},
		{"too many", small, most, "0", 16, "refused"},
	})
	spread := rival.Koordinator{Spread: true, MostAllocated: true}
	run(t, []pick{
		{"one thread a core", small, spread, "", 3, "0-2"},
		{"wholly free cores first", small, spread, "8", 2, "1-2"},
		{"a node with enough cores", small, spread, "0-1,8-9", 3, "4-6"},
		{"second threads when cores run out", small, spread, "", 6, "0-3,8-9"},
	})
	single := rival.Koordinator{SingleNUMANode: true}
	run(t, []pick{
		{"single: the emptiest node", small, single, "0,8", 2, "4,12"},
		{"single: threads rather than a refusal", small, single, "8-15", 4, "0-3"},
		{"single: refused", small, single, "0,4", 8, "refused"},
	})
}

func TestCompileRefuses(t *testing.T) {
	topo := small.topology()
	topo.Cores = topo.Cores[:1]
	if _, err := rival.Compile(topo); !errors.Is(err, rival.ErrTopology) {
		t.Errorf("got %v, want ErrTopology", err)
	}
	if _, err := rival.Compile(&topology.Topology{}); !errors.Is(err, rival.ErrTopology) {
		t.Errorf("got %v, want ErrTopology", err)
	}
}

// TestUnitsThatAreMissing: CPUs that no node or socket lists are one together.
func TestUnitsThatAreMissing(t *testing.T) {
	topo := small.topology()
	topo.Nodes, topo.Sockets, topo.L3 = topo.Nodes[:1], nil, nil
	m := compile(t, topo)
	single := rival.Kubelet{Topology: rival.SingleNUMANode, AlignByUncore: true}
	if got, ok := single.Pick(m, m.CPUs().Remove(0), 8); !ok || got != set(t, "4-7,12-15") {
		t.Errorf("picked %s, %v, want the node without a number", got, ok)
	}
}

// TestPicksAreSound: whatever is free, a pick has the size asked for, is free,
// and comes twice the same; a picker without a policy refuses only what does
// not fit; the narrow ones stay in one node.
func TestPicksAreSound(t *testing.T) {
	machines := []*topology.Topology{small.topology(), split.topology(), quad.topology(), shape{2, 2, 2, 3, 2}.topology()}
	rapid.Check(t, func(t *rapid.T) {
		topo := rapid.SampledFrom(machines).Draw(t, "machine")
		m := compile(t, topo)
		var free cpuset.Set
		for cpu := range m.CPUs().All() {
			if rapid.Bool().Draw(t, "free") {
				free = free.Add(cpu)
			}
		}
		n := rapid.IntRange(1, m.CPUs().Size()).Draw(t, "n")
		k := rival.Kubelet{
			FullPCPUsOnly: rapid.Bool().Draw(t, "full"), AlignByUncore: rapid.Bool().Draw(t, "uncore"),
			Topology: rival.TopologyPolicy(rapid.IntRange(0, 3).Draw(t, "policy")),
		}
		o := rival.Koordinator{
			Spread: rapid.Bool().Draw(t, "spread"), MostAllocated: rapid.Bool().Draw(t, "most"),
			SingleNUMANode: rapid.Bool().Draw(t, "single"),
		}
		sound(t, topo, k, m, free, n, k.Topology == rival.SingleNUMANode, !k.FullPCPUsOnly && k.Topology <= rival.BestEffort)
		sound(t, topo, o, m, free, n, o.SingleNUMANode, !o.SingleNUMANode)
	})
}

func sound(t *rapid.T, topo *topology.Topology, p picker, m *rival.Machine, free cpuset.Set, n int, narrow, always bool) {
	got, ok := p.Pick(m, free, n)
	again, okAgain := p.Pick(m, free, n)
	if got != again || ok != okAgain {
		t.Fatalf("%+v: %s, then %s", p, got, again)
	}
	if !ok {
		if always && n <= free.Size() {
			t.Fatalf("%+v: refused %d of %s", p, n, free)
		}
		return
	}
	if got.Size() != n || !got.IsSubsetOf(free) {
		t.Fatalf("%+v: picked %s of %s, want %d", p, got, free, n)
	}
	if narrow {
		for _, node := range topo.Nodes {
			if got.Intersects(node.CPUs) && !got.IsSubsetOf(node.CPUs) {
				t.Fatalf("%+v: picked %s across nodes", p, got)
			}
		}
	}
}
