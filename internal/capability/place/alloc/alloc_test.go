package alloc_test

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/linux/topology"
	_ "github.com/berth-project/berth/test/chance" // fixes the cases of the properties
)

// states returns the number of random states: BERTH_ALLOC_STATES, or ten for each check of a property (default 100).
func states(t *testing.T) int {
	t.Helper()
	text, factor := os.Getenv("BERTH_ALLOC_STATES"), 1
	if text == "" {
		text, factor = flag.Lookup("rapid.checks").Value.String(), 10
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("BERTH_ALLOC_STATES: %q", text)
	}
	return n * factor
}

// TestEqualsBruteForce compares every part of the answer with a search through all subsets.
func TestEqualsBruteForce(t *testing.T) {
	var s alloc.Scratch
	for seed := range states(t) {
		d := newDice(uint64(seed))
		top := drawTopology(d, d.between(4, 16))
		m := compile(t, top)
		holds, taken := drawHolds(d, m)
		compare(t, m, &s, &taken, holds, drawRequest(d, m.Pinnable().Difference(taken.CPUs()).Size()))
		if t.Failed() {
			t.Fatalf("state %d", seed)
		}
	}
}

// TestManyNodes has more sets of nodes than the package lists: eight nodes of one core, with half of the threads held.
// The distances make the nodes differ.
func TestManyNodes(t *testing.T) {
	var s alloc.Scratch
	for seed := range max(50, states(t)/100) {
		d := newDice(uint64(seed))
		top := shape{sockets: 2, nodes: 4, l3s: 1, cores: 1, threads: 2}.topology()
		for i := range top.Nodes {
			for j := range i {
				far := d.between(11, 40)
				top.Nodes[i].Distances[j], top.Nodes[j].Distances[i] = far, far
			}
		}
		m := compile(t, top)
		holds := []hold{{CPUs: drawSubset(d, m.Pinnable(), 2)}}
		var taken alloc.Taken
		m.Hold(&taken, holds[0])
		compare(t, m, &s, &taken, holds, &alloc.Request{Wants: wants(d.between(2, 5)), Strategy: drawOf(d, alloc.MostAllocated, alloc.LeastAllocated)})
		if t.Failed() {
			t.Fatalf("state %d", seed)
		}
	}
}

// TestL3AcrossNodes: an L3 domain lies in three nodes. In a set of nodes it counts with its CPUs there, so no set has
// enough with two domains.
func TestL3AcrossNodes(t *testing.T) {
	top := &topology.Topology{
		Sockets: []topology.Socket{{}},
		L3:      []topology.L3{{ID: 0}, {ID: 1}, {ID: 2}, {ID: 3}, {ID: 4}},
		Nodes: []topology.Node{
			{ID: 0, Distances: []int{10, 13, 13, 13}},
			{ID: 1, Distances: []int{13, 10, 12, 13}},
			{ID: 2, Distances: []int{13, 12, 10, 13}},
			{ID: 3, Distances: []int{13, 13, 13, 10}},
		},
	}
	for _, c := range []struct {
		cpus     string
		node, l3 int
	}{{"0,6", 3, 1}, {"1,3", 1, 0}, {"2,7", 2, 2}, {"4-5", 1, 1}, {"8,11", 3, 4}, {"9,12", 0, 3}, {"10,14", 0, 1}, {"13,15", 2, 2}} {
		core := topology.Core{CPUs: cpus(t, c.cpus), Node: topology.NodeID(c.node), L3: topology.L3ID(c.l3)}
		low, _ := core.CPUs.Min()
		core.ID = topology.CoreID(low)
		top.Cores, top.Online = append(top.Cores, core), top.Online.Union(core.CPUs)
	}
	m := compile(t, top)
	var s alloc.Scratch
	for n := 1; n <= 15; n++ {
		holds := []hold{{CPUs: cpus(t, "9")}}
		var taken alloc.Taken
		m.Hold(&taken, holds[0])
		compare(t, m, &s, &taken, holds, &alloc.Request{Wants: wants(n)})
	}
}

func compile(t rapid.TB, top *topology.Topology) *alloc.Machine {
	t.Helper()
	m, err := alloc.Compile(top)
	if err != nil {
		t.Fatalf("Compile: %v", err)
	}
	return m
}

func compare(t rapid.TB, m *alloc.Machine, s *alloc.Scratch, taken *alloc.Taken, holds []hold, r *alloc.Request) {
	t.Helper()
	got, no := m.Allocate(s, taken, r)
	want := expect(m.Topology(), holds, r)
	if (no.Code == alloc.Placed) != want.ok {
		t.Errorf("%s: refusal %q, want answer %v (%q)", describe(m, holds, r), no, want.ok, want.cpus.set())
	}
	if !want.ok || no.Code != alloc.Placed {
		return
	}
	each := make([]string, 0, len(want.each))
	for _, w := range want.each {
		each = append(each, w.set().String())
	}
	gotEach := make([]string, 0, len(got.Each))
	for _, w := range got.Each {
		gotEach = append(gotEach, w.String())
	}
	type view struct {
		CPUs    string
		Vector  alloc.Vector
		Dropped alloc.Dropped
		Each    []string
		Exact   bool
	}
	if diff := cmp.Diff(view{want.cpus.set().String(), want.vector, want.dropped, each, true},
		view{got.CPUs.String(), got.Vector, got.Dropped, gotEach, got.Exact}); diff != "" {
		t.Errorf("%s: want -, got +:\n%s", describe(m, holds, r), diff)
	}
}

func describe(m *alloc.Machine, holds []hold, r *alloc.Request) string {
	text := ""
	for _, c := range m.Topology().Cores {
		text += fmt.Sprintf("core %s node %d l3 %d socket %d %s\n", c.CPUs, c.Node, c.L3, c.Socket, c.Kind)
	}
	for _, n := range m.Topology().Nodes {
		text += fmt.Sprintf("node %d distances %v\n", n.ID, n.Distances)
	}
	text += fmt.Sprintf("reserved %s isolated %s\n", m.Topology().Reserved, m.Topology().Isolated)
	for _, h := range holds {
		text += fmt.Sprintf("held %s exclusive %d single %v\n", h.CPUs, h.Exclusive, h.SingleNUMA)
	}
	return fmt.Sprintf("%s%+v", text, *r)
}
