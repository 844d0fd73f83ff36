package load

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// leastStretches is the smallest number of stretches whose median has a 95 % interval. Five stretches all lie on one
// side of the true median in 6 % of all cases.
const leastStretches = 6

// PairedMedian compares quantile q of two arms stretch by stretch. A stretch is as many whole batches of arrivals as
// support q in both arms, which had the same arrivals. The estimate is the median of the ratios of the stretches: a
// disturbance of one arm by the machine moves it only if it lasts for half of all stretches. PairedRatio and the
// throttled periods show shorter effects. The interval is a two-level percentile bootstrap: of repetitions, and of
// stretches within each repetition.
//
// ok is false, and the ratio zero, with too few stretches.
func PairedMedian(pairs []Pair, q float64) (ratio Ratio, ok bool) {
	var repetitions [][]float64
	var all []float64
	for _, p := range pairs {
		if ratios := stretches(p, q); len(ratios) > 0 {
			repetitions, all = append(repetitions, ratios), append(all, ratios...)
		}
	}
	if len(all) < leastStretches {
		return Ratio{}, false
	}
	random := rand.New(rand.NewPCG(bootstrapSeed, 3))
	medians := make([]float64, 0, resamples)
	var drawn []float64
	for range resamples {
		drawn = drawn[:0]
		for range repetitions {
			of := repetitions[random.IntN(len(repetitions))]
			for range of {
				drawn = append(drawn, of[random.IntN(len(of))])
			}
		}
		medians = append(medians, Median(drawn))
	}
	slices.Sort(medians)
	ratio.Estimate = Median(all)
	ratio.Low, ratio.High = interval(medians)
	return ratio, true
}

// Stretches returns the number of stretches that PairedMedian compares.
func Stretches(pairs []Pair, q float64) int {
	n := 0
	for _, p := range pairs {
		n += len(stretches(p, q))
	}
	return n
}

// Median returns the median of values, which must not be empty.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// stretches returns the ratios of the quantiles of one repetition's stretches. Samples that are left at the end belong
// to the last stretch.
func stretches(p Pair, q float64) []float64 {
	arm, reference := byArrival(p.Arm), byArrival(p.Reference)
	least := int(math.Ceil(samplesAbove/(1-q) - 1e-6))
	var ratios []float64
	for len(arm) > 0 && len(reference) > 0 {
		n := batchesOf(reference, least)
		if len(reference)-n < least {
			n = len(reference)
		}
		end := reference[n-1].Intended
		m, _ := slices.BinarySearchFunc(arm, end+1, func(s Sample, at time.Duration) int { return int(s.Intended - at) })
		a, armOK := Quantile(Sorted(arm[:m]), q)
		r, referenceOK := Quantile(Sorted(reference[:n]), q)
		if armOK && referenceOK && r > 0 {
			ratios = append(ratios, float64(a)/float64(r))
		}
		arm, reference = arm[m:], reference[n:]
	}
	return ratios
}

// batchesOf returns least, rounded up to whole batches, but at most the number of samples.
func batchesOf(samples []Sample, least int) int {
	n := min(least, len(samples))
	for n < len(samples) && samples[n].Intended == samples[n-1].Intended {
		n++
	}
	return n
}

func byArrival(samples []Sample) []Sample {
	sorted := slices.Clone(samples)
	slices.SortStableFunc(sorted, func(a, b Sample) int { return int(a.Intended - b.Intended) })
	return sorted
}
