package load

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestSupported(t *testing.T) {
	for _, c := range []struct {
		n    int
		q    float64
		want bool
	}{
		{19, 0.5, false},
		{20, 0.5, true},
		{199, 0.95, false},
		{200, 0.95, true},
		{999, 0.99, false},
		{1000, 0.99, true},
		{9999, 0.999, false},
		{10000, 0.999, true},
		{0, 0.5, false},
	} {
		if got := Supported(c.n, c.q); got != c.want {
			t.Errorf("Supported(%d, %g) = %v, want %v", c.n, c.q, got, c.want)
		}
	}
}

// TestQuantileOracle compares Quantile with the definition: the smallest sample such that at least a share q of all
// samples are not above it.
func TestQuantileOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOfN(rapid.IntRange(0, 50), 1, 200).Draw(t, "latencies")
		perMille := rapid.SampledFrom([]int{500, 950, 990, 999, 1000}).Draw(t, "q")
		sorted := make([]time.Duration, len(raw))
		for i, v := range raw {
			sorted[i] = time.Duration(v)
		}
		slices.Sort(sorted)
		want := time.Duration(-1)
		for _, candidate := range sorted {
			notAbove := 0
			for _, v := range sorted {
				if v <= candidate {
					notAbove++
				}
			}
			if notAbove*1000 >= perMille*len(sorted) {
				want = candidate
				break
			}
		}
		if got, _ := Quantile(sorted, float64(perMille)/1000); got != want {
			t.Fatalf("Quantile(%v, %d/1000) = %d, want %d", sorted, perMille, got, want)
		}
	})
}

func TestQuantileOfNothing(t *testing.T) {
	if v, ok := Quantile(nil, 0.5); v != 0 || ok {
		t.Errorf("Quantile(nil) = %v, %v, want 0, false", v, ok)
	}
}

func TestSortedCountsFailures(t *testing.T) {
	samples := []Sample{{0, 5, 204}, {1, 30, 0}, {2, 1, 204}}
	if got, want := Sorted(samples), []time.Duration{1, 5, 30}; !slices.Equal(got, want) {
		t.Errorf("Sorted = %v, want %v", got, want)
	}
	if got := Failures(samples); got != 1 {
		t.Errorf("Failures = %d, want 1", got)
	}
	if got := len(Before(samples, 2)); got != 2 {
		t.Errorf("Before(2) keeps %d, want 2", got)
	}
}

// synthetic returns n samples a millisecond apart with the same latency, except every tenth, which takes slow.
func synthetic(n int, fast, slow time.Duration) []Sample {
	samples := make([]Sample, n)
	for i := range samples {
		samples[i] = Sample{Intended: time.Duration(i) * time.Millisecond, Latency: fast, Status: 204}
		if i%10 == 0 {
			samples[i].Latency = slow
		}
	}
	return samples
}

func TestPairedRatioOfIdenticalArms(t *testing.T) {
	samples := synthetic(5000, time.Millisecond, 40*time.Millisecond)
	pairs := []Pair{{samples, samples}, {samples, samples}, {samples, samples}}
	got, ok := PairedRatio(pairs, 0.99)
	if !ok || got != (Ratio{1, 1, 1}) {
		t.Errorf("PairedRatio of an arm with itself = %+v, %v, want exactly 1", got, ok)
	}
}

func TestPairedRatio(t *testing.T) {
	reference := synthetic(5000, time.Millisecond, 40*time.Millisecond)
	arm := synthetic(5000, 2*time.Millisecond, 100*time.Millisecond)
	pairs := []Pair{{arm, reference}, {arm, reference}, {reference, reference}}
	got, ok := PairedRatio(pairs, 0.99)
	if !ok || math.Abs(got.Estimate-2.5) > 1e-9 {
		t.Fatalf("PairedRatio = %+v, %v, want estimate 2.5", got, ok)
	}
	if got.Low > got.Estimate || got.High < got.Estimate || got.Low < 1 || got.High > 2.5 {
		t.Errorf("interval %+v does not hold the estimate within 1..2.5", got)
	}
	if got.Low != 1 {
		t.Errorf("interval %+v ignores that one repetition in three shows no difference", got)
	}
	again, _ := PairedRatio(pairs, 0.99)
	if again != got {
		t.Errorf("same samples, other interval: %+v and %+v", got, again)
	}
}

func TestPairedRatioNeedsSupport(t *testing.T) {
	samples := synthetic(900, time.Millisecond, time.Second)
	if _, ok := PairedRatio([]Pair{{samples, samples}}, 0.99); ok {
		t.Error("900 samples a side support p99")
	}
	if _, ok := PairedRatio([]Pair{{samples, samples}, {samples, samples}}, 0.99); !ok {
		t.Error("1,800 pooled samples a side do not support p99")
	}
}

// TestPooledQuantile compares the weighted tail walk with the plain quantile.
func TestPooledQuantile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOfN(rapid.IntRange(0, 50), 1, 300).Draw(t, "latencies")
		samples := make([]Sample, len(raw))
		for i, v := range raw {
			samples[i] = Sample{Intended: time.Duration(i) * 100 * time.Millisecond, Latency: time.Duration(v)}
		}
		q := rapid.SampledFrom([]float64{0.5, 0.95, 0.99, 0.999}).Draw(t, "q")
		p := pool([]Pair{{Arm: samples}}, armOf)
		w := newWeights(1, p.blocks)
		w.fill(1)
		want, _ := Quantile(Sorted(samples), q)
		if got := p.quantile(q, w); got != want {
			t.Fatalf("pooled quantile %g = %d, want %d", q, got, want)
		}
	})
}
