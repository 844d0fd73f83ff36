package load_test

import (
	"math"
	"testing"

	"github.com/berth-project/berth/internal/load"
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
		"sums, not a mean of ratios":          {shares(1, 9), shares(2, 3), true, 2, 0.5},
		"nothing in the arm":                  {shares(0, 0), shares(1, 1), true, 0, 0},
		"nothing in the reference":            {shares(1, 1), shares(0, 0), false, 0, 0},
		"no repetition":                       {nil, nil, false, 0, 0},
		"not paired":                          {shares(1, 1), shares(1), false, 0, 0},
	} {
		got, ok := load.PairedShares(c.arm, c.reference)
		if ok != c.ok || math.Abs(got.Estimate-c.want) > 1e-9 || math.Abs(got.Low-c.low) > 1e-9 {
			t.Errorf("%s: %+v %v, want estimate %g, low %g, %v", name, got, ok, c.want, c.low, c.ok)
		}
		if again, _ := load.PairedShares(c.arm, c.reference); again != got {
			t.Errorf("%s: %+v, then %+v", name, got, again)
		}
	}
	wholes := []load.Share{{Part: 10, Whole: 2}, {Part: 10, Whole: 3}}
	if got, _ := load.PairedShares(wholes, shares(10, 10)); math.Abs(got.Estimate-4) > 1e-9 || got.High <= got.Estimate {
		t.Errorf("pods a second: %+v, want 4 with a width", got)
	}
}
