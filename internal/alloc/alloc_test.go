package alloc_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/alloc"
	"github.com/berth-project/berth/internal/topology"
)

// statesPerCheck states make one check of a property: the default of 100 checks
// looks at 1,000 states, and 10,000 checks at 100,000.
const statesPerCheck = 10

// TestEqualsBruteForce holds every part of the answer to what trying all
// subsets gives.
func TestEqualsBruteForce(t *testing.T) {
	var s alloc.Scratch
	rapid.Check(t, func(t *rapid.T) {
		for range statesPerCheck {
			top := drawTopology(t, rapid.SampledFrom([]int{6, 8, 10, 12, 14, 16}).Draw(t, "most"))
			m := compile(t, top)
			holds, taken := drawHolds(t, m)
			r := drawRequest(t, max(1, top.Online.Size()/2))
			compare(t, m, &s, &taken, holds, r)
		}
	})
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
		t.Fatalf("%s: refusal %q, want answer %v (%q)", describe(m, holds, r), no, want.ok, want.cpus.set())
	}
	if !want.ok {
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
		t.Fatalf("%s: want -, got +:\n%s", describe(m, holds, r), diff)
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
