package load_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/berth-project/berth/internal/proof/load"
)

func shares(parts ...float64) []load.Share {
	list := make([]load.Share, len(parts))
	for i, part := range parts {
		list[i] = load.Share{Part: part, Whole: 10}
	}
	return list
}

func TestPairedShares(t *testing.T) {
	for name, c := range map[string]struct {
		arm, reference []load.Share
		ok             bool
		want, low      float64
	}{
		"always the same factor has no width": {shares(2, 4, 6), shares(1, 2, 3), true, 2, 2},
		"equal":                               {shares(2, 4), shares(2, 4), true, 1, 1},
		// Effects ±0.6 have the deviation 0.849; divided by the root of 2 that is 0.6; t is 12.706.
		"sums, not a mean of ratios": {shares(1, 9), shares(2, 3), true, 2, 2 * math.Exp(-12.7062*0.6)},
		"nothing in the arm":         {shares(0, 0), shares(1, 1), true, 0, 0},
		"nothing in one pair":        {shares(0, 2), shares(1, 0), true, 2, 2 * math.Exp(-12.7062*2)},
		"nothing in the reference":   {shares(1, 1), shares(0, 0), false, 0, 0},
		"one repetition":             {shares(2), shares(1), false, 0, 0},
		"no repetition":              {nil, nil, false, 0, 0},
		"not paired":                 {shares(1, 1), shares(1), false, 0, 0},
	} {
		got, ok := load.PairedShares(c.arm, c.reference)
		if ok != c.ok || math.Abs(got.Estimate-c.want) > 1e-9 || math.Abs(got.Low-c.low) > 1e-9 {
			t.Errorf("%s: %+v %v, want estimate %g, low %g, %v", name, got, ok, c.want, c.low, c.ok)
		}
		if got.Low > 0 && math.Abs(got.Low*got.High-c.want*c.want) > 1e-9 {
			t.Errorf("%s: %+v is not symmetric in the logarithm", name, got)
		}
	}
	wholes := []load.Share{{Part: 10, Whole: 2}, {Part: 10, Whole: 3}}
	if got, _ := load.PairedShares(wholes, shares(10, 10)); math.Abs(got.Estimate-4) > 1e-9 || got.High <= got.Estimate {
		t.Errorf("pods a second: %+v, want 4 with a width", got)
	}
}

// TestPairedSharesCover counts how often the interval of a few pairs contains the ratio with which they were drawn. A
// bootstrap of three pairs would contain it only three times in four.
func TestPairedSharesCover(t *testing.T) {
	const runs, truth = 4000, 1.05
	random := rand.New(rand.NewPCG(1, 1))
	for _, pairs := range []int{3, 6, 10, 30} {
		covered := 0
		for range runs {
			var arm, reference []load.Share
			for range pairs {
				slow := math.Exp(0.3 * random.NormFloat64()) // Common to both arms of a pair.
				arm = append(arm, load.Share{Part: truth, Whole: slow * math.Exp(0.05*random.NormFloat64())})
				reference = append(reference, load.Share{Part: 1, Whole: slow * math.Exp(0.05*random.NormFloat64())})
			}
			if got, ok := load.PairedShares(arm, reference); ok && got.Low <= truth && truth <= got.High {
				covered++
			}
		}
		if rate := float64(covered) / runs; rate < 0.935 || rate > 0.965 {
			t.Errorf("%d pairs: %.1f %% of the intervals contain the ratio, want 95 %%", pairs, 100*rate)
		}
	}
}
