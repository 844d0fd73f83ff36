package load

import (
	"math/rand/v2"
	"slices"
)

// Share is one count of one repetition, and of how many: pods of all pods, or
// pods in so many seconds. A plain count is a share of 1.
type Share struct {
	Part, Whole float64
}

// PairedShares compares two arms by the shares of paired repetitions, which
// had the same arrivals. The estimate is the sum of the arm's parts over that
// of its wholes, over the same of the reference. The 95 % interval is a
// percentile bootstrap: repetitions are drawn with replacement, the same ones
// for both arms.
//
// ok is false, and the ratio zero, without repetitions, when the two lists
// differ in length, or where the reference's share is 0.
func PairedShares(arm, reference []Share) (ratio Ratio, ok bool) {
	if len(arm) == 0 || len(arm) != len(reference) {
		return Ratio{}, false
	}
	all := make([]int, len(arm))
	for i := range all {
		all[i] = i
	}
	if ratio.Estimate, ok = shareRatio(arm, reference, all); !ok {
		return Ratio{}, false
	}
	random := rand.New(rand.NewPCG(bootstrapSeed, 3))
	ratios := make([]float64, 0, resamples)
	drawn := make([]int, len(arm))
	for range resamples {
		for i := range drawn {
			drawn[i] = random.IntN(len(arm))
		}
		if r, ok := shareRatio(arm, reference, drawn); ok {
			ratios = append(ratios, r)
		}
	}
	if len(ratios) == 0 {
		return Ratio{}, false
	}
	slices.Sort(ratios)
	ratio.Low, ratio.High = interval(ratios)
	return ratio, true
}

// interval cuts 2.5 % off either end of ascending ratios, of which there must
// be one.
func interval(ratios []float64) (low, high float64) {
	return ratios[len(ratios)*25/1000], ratios[min(len(ratios)*975/1000, len(ratios)-1)]
}

func shareRatio(arm, reference []Share, drawn []int) (float64, bool) {
	var a, r Share
	for _, i := range drawn {
		a.Part, a.Whole = a.Part+arm[i].Part, a.Whole+arm[i].Whole
		r.Part, r.Whole = r.Part+reference[i].Part, r.Whole+reference[i].Whole
	}
	if a.Whole <= 0 || r.Whole <= 0 || r.Part <= 0 {
		return 0, false
	}
	return a.Part / a.Whole / (r.Part / r.Whole), true
}
