package load

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "github.com/berth-project/berth/test/chance" // fixes the cases of the properties
)

// arm returns one arm of one repetition: batches of requests, whose latencies are drawn separately for each arm and
// slowed down by the machine for a part of the time.
func arm(random *rand.Rand, batches int, slower float64, disturbed func(batch int) float64) []Sample {
	const batch = 50
	var samples []Sample
	for b := range batches {
		for i := range batch {
			latency := (1 + float64(i)/10 + random.ExpFloat64()) * slower * disturbed(b)
			samples = append(samples, Sample{Intended: time.Duration(b) * time.Second / 5, Latency: time.Duration(latency * 1e6), Status: 204})
		}
	}
	return samples
}

func quietly(int) float64 { return 1 }

// TestPairedMedianHoldsTheTruth checks that the estimate is near the truth whatever disturbs a minority of the
// stretches of an arm. The quantile of all samples is not.
func TestPairedMedianHoldsTheTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		slower := rapid.SampledFrom([]float64{0.5, 1, 1, 2, 7}).Draw(t, "slower")
		bad := rapid.IntRange(0, 9).Draw(t, "bad")
		noise := rapid.Float64Range(1, 20).Draw(t, "noise")
		var pairs []Pair
		for repetition := range 10 {
			disturbed := quietly
			if repetition == bad {
				disturbed = func(int) float64 { return noise }
			}
			pairs = append(pairs, Pair{Arm: arm(random, 100, slower, disturbed), Reference: arm(random, 100, 1, quietly)})
		}
		got, ok := PairedMedian(pairs, 0.99)
		if !ok || math.Abs(got.Estimate/slower-1) > 0.05 || got.Low > got.Estimate || got.High < got.Estimate || got.High > slower*1.1 {
			t.Fatalf("%+v, %v for an arm slower by %v", got, ok, slower)
		}
	})
}

// TestStretches checks that stretches are whole batches that support the quantile, and together contain all samples.
func TestStretches(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	reference := arm(random, 70, 1, quietly)
	random.Shuffle(len(reference), func(i, j int) { reference[i], reference[j] = reference[j], reference[i] })
	slow := make([]Sample, len(reference))
	for i, s := range reference {
		s.Latency *= 3
		slow[i] = s
	}
	for q, want := range map[float64]int{0.5: 70, 0.99: 3, 0.999: 0} {
		got := stretches(Pair{Arm: slow, Reference: reference}, q)
		if len(got) != want {
			t.Errorf("quantile %v: %d stretches of 3,500 samples, want %d", q, len(got), want)
		}
		for _, ratio := range got {
			if ratio != 3 {
				t.Errorf("quantile %v: ratio %v, want 3", q, ratio)
			}
		}
	}
}

// TestPairedMedianNeedsStretches checks that five stretches have no 95 % interval.
func TestPairedMedianNeedsStretches(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	pair := Pair{Arm: arm(random, 100, 1, quietly), Reference: arm(random, 100, 1, quietly)}
	if got, ok := PairedMedian([]Pair{pair}, 0.99); ok {
		t.Errorf("five stretches: %+v", got)
	}
	if _, ok := PairedMedian([]Pair{pair, pair}, 0.99); !ok {
		t.Error("ten stretches are too few")
	}
	if got, ok := PairedMedian(nil, 0.99); ok {
		t.Errorf("nothing: %+v", got)
	}
}
