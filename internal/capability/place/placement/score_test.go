package placement_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/placement"
)

// TestScoreOrder: the packed score orders decisions as their vectors do, but by far devices before all else.
func TestScoreOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bind := rapid.SampledFrom([]alloc.Bind{alloc.FullPCPUs, alloc.SpreadByPCPUs}).Draw(t, "bind")
		strategy := rapid.SampledFrom([]alloc.Strategy{alloc.MostAllocated, alloc.LeastAllocated}).Draw(t, "strategy")
		draw := func(name string) placement.Decision {
			term := func(most int) int { return rapid.IntRange(0, most).Draw(t, name) }
			return placement.Decision{Bind: bind, Strategy: strategy, Answer: alloc.Answer{Vector: alloc.Vector{
				NUMANodes: term(8), FarDevices: term(3), Unheld: term(1), OffPreferred: term(15), Sockets: 1 + term(7), Distance: term(15) * 16, L3s: term(31),
				Split: term(100), Broken: term(30), Cores: term(250), FreeL3: term(500), FreeNUMA: term(500), FreeSocket: term(500),
			}}}
		}
		a, b := draw("a"), draw("b")
		if rapid.Bool().Draw(t, "near") { // differ only in the last terms
			late := b.Answer.Vector
			b.Answer.Vector = a.Answer.Vector
			b.Answer.Vector.FreeNUMA, b.Answer.Vector.FreeSocket = late.FreeNUMA, late.FreeSocket
		}
		x, y := placement.Score(&a), placement.Score(&b)
		want := a.Answer.Vector.FarDevices - b.Answer.Vector.FarDevices
		if want == 0 {
			want = a.Answer.Vector.Compare(b.Answer.Vector, bind, strategy)
		}
		if x < 0 || y < 0 || want < 0 && x <= y || want > 0 && x >= y || want == 0 && x != y {
			t.Fatalf("scores %d and %d for a comparison of %d", x, y, want)
		}
	})
}

// TestScoreWithoutSockets: a machine that shows no socket counts as one socket.
func TestScoreWithoutSockets(t *testing.T) {
	none := placement.Decision{Answer: alloc.Answer{Vector: alloc.Vector{NUMANodes: 1}}}
	one := placement.Decision{Answer: alloc.Answer{Vector: alloc.Vector{NUMANodes: 1, Sockets: 1}}}
	if a, b := placement.Score(&none), placement.Score(&one); a != b {
		t.Errorf("%d without a socket, %d in one", a, b)
	}
}

func TestScoreSaturates(t *testing.T) {
	huge := placement.Decision{Answer: alloc.Answer{Vector: alloc.Vector{NUMANodes: 1 << 20, Distance: 1 << 40, FreeL3: 1 << 30}}}
	good := placement.Decision{Answer: alloc.Answer{Vector: alloc.Vector{NUMANodes: 1}}}
	if a, b := placement.Score(&huge), placement.Score(&good); a < 0 || a >= b {
		t.Errorf("%d, %d", a, b)
	}
}

// near is one unit of the last term of locality, for example an L3 domain or a NUMA node.
const near = 1 << 32

func TestNormalize(t *testing.T) {
	for _, test := range []struct{ in, want []int64 }{
		{nil, nil},
		{[]int64{7}, []int64{100}},
		{[]int64{7, 7}, []int64{100, 100}},
		{[]int64{7, 9}, []int64{90, 100}},
		{[]int64{5, 5, 9, 5 + near, 9 + 2*near}, []int64{0, 0, 10, 55, 100}},
		{[]int64{5 + 2*near, 7 + 2*near, 9 + 2*near, 1}, []int64{90, 95, 100, 10}},
	} {
		got := slices.Clone(test.in)
		placement.Normalize(got)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", test.in, diff)
		}
	}
}

func TestNormalizeKeepsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOfN(rapid.Int64Range(0, 400), 1, 600).Draw(t, "scores")
		most := rapid.Int64Range(1, 400).Draw(t, "locality")
		for i := range in {
			in[i] += in[i] % most * near
		}
		out := slices.Clone(in)
		placement.Normalize(out)
		few := len(slices.Compact(slices.Sorted(slices.Values(in)))) <= 10
		greatest := slices.Max(in)
		for i := range in {
			if out[i] < 0 || out[i] > 100 || (in[i] == greatest) != (out[i] == 100) {
				t.Fatalf("%d became %d, the best is %d", in[i], out[i], greatest)
			}
			j := (i + 1) % len(in)
			if in[i] == in[j] && out[i] != out[j] || in[i] < in[j] && out[i] > out[j] {
				t.Fatalf("%d, %d became %d, %d", in[i], in[j], out[i], out[j])
			}
			if in[i]/near == in[j]/near && max(out[i]-out[j], out[j]-out[i]) > 10 {
				t.Fatalf("%d, %d differ in packing only and became %d, %d", in[i], in[j], out[i], out[j])
			}
			if few && in[i] < in[j] && out[i] == out[j] {
				t.Fatalf("of few scores %d and %d became the same", in[i], in[j])
			}
		}
	})
}

// TestPackingIsWorthLessThanSpread adds the plugin's score, weight 10, and the most that PodTopologySpread, weight 2,
// gives a node, without a scheduler. If two nodes suit the pod equally well, the fuller node loses. One L3 domain more
// does not outweigh locality.
func TestPackingIsWorthLessThanSpread(t *testing.T) {
	decision := func(l3s, freeL3 int) *placement.Decision {
		return &placement.Decision{Answer: alloc.Answer{Vector: alloc.Vector{NUMANodes: 1, Sockets: 1, L3s: l3s, FreeL3: freeL3, FreeNUMA: 2 * freeL3}}}
	}
	for _, test := range []struct {
		name            string
		replica, beside *placement.Decision
		spreads         bool
	}{
		{"the fuller node", decision(1, 0), decision(1, 12), true},
		{"fewer L3 domains", decision(1, 12), decision(2, 12), false},
	} {
		scores := []int64{placement.Score(test.replica), placement.Score(test.beside)}
		placement.Normalize(scores)
		const weight, spread = 10, 2 * 100
		if spreads := weight*scores[1]+spread > weight*scores[0]; spreads != test.spreads {
			t.Errorf("%s: %v: spreads %t", test.name, scores, spreads)
		}
	}
}
