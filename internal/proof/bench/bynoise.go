package bench

import (
	"fmt"
	"math"

	"github.com/berth-project/berth/internal/proof/load"
)

// The repetitions by noise: so many repetitions measure the noise, and at most so many are run to have an interval of the
// noise with this half width.
const (
	noiseRepetitions = 3
	mostRepetitions  = 20
	noiseHalfWidth   = 0.025
)

// repetitionsByNoise returns how many repetitions a run needs, by the noise of its first n. The half width of an interval
// shrinks with the root of their number. Only the two unlimited arms are looked at, never an arm that is judged, so that a
// favorable interim result cannot end a run.
func repetitionsByNoise(noise *load.Ratio, n int) int {
	if noise == nil {
		return n // too few requests for any verdict
	}
	w := (noise.High - noise.Low) / 2
	wanted := math.Ceil(float64(n)*(w/noiseHalfWidth)*(w/noiseHalfWidth) - 1e-9)
	return int(min(max(wanted, float64(n)), mostRepetitions))
}

// byNoiseNote says how many repetitions ran, and why.
func byNoiseNote(noise *load.Ratio, n int) string {
	if noise == nil {
		return fmt.Sprintf("repetitions by noise: %d, since too few requests show no noise", n)
	}
	return fmt.Sprintf("repetitions by noise: %d, whose interval of the noise is ±%.1f %%; ±%.1f %% wanted, at most %d are run",
		n, 50*(noise.High-noise.Low), 100*noiseHalfWidth, mostRepetitions)
}

// pairsOf pairs the samples of two arms.
func pairsOf(repetitions []Repetition, arm, reference string) []load.Pair {
	pairs := make([]load.Pair, 0, len(repetitions))
	for _, r := range repetitions {
		pairs = append(pairs, load.Pair{Arm: r[arm].Samples, Reference: r[reference].Samples})
	}
	return pairs
}

// medianOf returns the paired median of two arms, nil with too few stretches.
func medianOf(repetitions []Repetition, arm, reference string, q float64) *load.Ratio {
	median, ok := load.PairedMedian(pairsOf(repetitions, arm, reference), q)
	if !ok {
		return nil
	}
	return &median
}
