package alloc_test

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/alloc"
	"github.com/berth-project/berth/internal/topology"
)

// states is the number of random states to look at: BERTH_ALLOC_STATES, else ten
// for each check of a property, of which the default is 100.
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

// TestEqualsBruteForce holds every part of the answer to what trying all
// subsets gives.
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
