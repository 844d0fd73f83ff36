package placement_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/alloc"
	"github.com/berth-project/berth/internal/placement"
)

// TestScoreOrder says that the packed number orders as the vectors do.
func TestScoreOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bind := rapid.SampledFrom([]alloc.Bind{alloc.FullPCPUs, alloc.SpreadByPCPUs}).Draw(t, "bind")
		strategy := rapid.SampledFrom([]alloc.Strategy{alloc.MostAllocated, alloc.LeastAllocated}).Draw(t, "strategy")
		draw := func(name string) placement.Decision {
			term := func(most int) int { return rapid.IntRange(0, most).Draw(t, name) }
			return placement.Decision{Bind: bind, Strategy: strategy, Answer: alloc.Answer{Vector: alloc.Vector{
				NUMANodes: term(8), OffPreferred: term(31), L3s: term(32), Split: term(100), Broken: term(100), Cores: term(512),
				FreeL3: term(500), FreeNUMA: term(500), FreeSocket: term(1000), Distance: term(7) * 16,
			}}}
		}
		a, b := draw("a"), draw("b")
		if rapid.Bool().Draw(t, "near") { // differ in the last terms only
			late := b.Answer.Vector
			b.Answer.Vector = a.Answer.Vector
			b.Answer.Vector.FreeNUMA, b.Answer.Vector.Distance = late.FreeNUMA, late.Distance
		}
		x, y := placement.Score(&a), placement.Score(&b)
		want := a.Answer.Vector.Compare(b.Answer.Vector, bind, strategy)
		if x < 0 || y < 0 || want < 0 && x <= y || want > 0 && x >= y || want == 0 && x != y {
			t.Fatalf("scores %d and %d for a comparison of %d", x, y, want)
		}
	})
}

func TestScoreSaturates(t *testing.T) {
	huge := placement.Decision{Answer: alloc.Answer{Vector: alloc.Vector{NUMANodes: 1 << 20, Distance: 1 << 40, FreeL3: 1 << 30}}}
	good := placement.Decision{Answer: alloc.Answer{Vector: alloc.Vector{NUMANodes: 1}}}
	if a, b := placement.Score(&huge), placement.Score(&good); a < 0 || a >= b {
		t.Errorf("%d, %d", a, b)
	}
}

func TestNormalize(t *testing.T) {
	for _, test := range []struct{ in, want []int64 }{
		{nil, nil},
		{[]int64{7}, []int64{100}},
		{[]int64{7, 7}, []int64{100, 100}},
		{[]int64{7, 9}, []int64{0, 100}},
		{[]int64{5, 1 << 62, -3, 5}, []int64{50, 100, 0, 50}},
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
		out := slices.Clone(in)
		placement.Normalize(out)
		distinct := slices.Compact(slices.Sorted(slices.Values(in)))
		most := slices.Max(in)
		for i := range in {
			if out[i] < 0 || out[i] > 100 || (in[i] == most) != (out[i] == 100) {
				t.Fatalf("%d became %d, the best is %d", in[i], out[i], most)
			}
			j := (i + 1) % len(in)
			if in[i] == in[j] && out[i] != out[j] || in[i] < in[j] && out[i] > out[j] {
				t.Fatalf("%d, %d became %d, %d", in[i], in[j], out[i], out[j])
			}
			if len(distinct) <= 101 && in[i] < in[j] && out[i] == out[j] {
				t.Fatalf("of %d distinct scores %d and %d became the same", len(distinct), in[i], in[j])
			}
		}
	})
}
