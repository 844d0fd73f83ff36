package load

import (
	"math"
	"slices"
	"time"
)

// samplesAbove is how many samples must lie above a quantile for it to be
// known. With ten, the rank's own random error (about the square root of the
// number above) is a third of the distance to the maximum; with fewer, one
// lucky request decides the figure.
const samplesAbove = 10

// Supported says whether n samples support quantile q (0..1): at least ten of
// them lie above it. p50 needs 20, p95 200, p99 1,000, p99.9 10,000.
func Supported(n int, q float64) bool {
	return float64(n)*(1-q) >= samplesAbove-1e-6
}

// Sorted returns the latencies of the samples in ascending order. A request
// that failed counts with the time it was waited for: leaving it out would
// make a server better that answers less.
func Sorted(samples []Sample) []time.Duration {
	latencies := make([]time.Duration, len(samples))
	for i, s := range samples {
		latencies[i] = s.Latency
	}
	slices.Sort(latencies)
	return latencies
}

// Quantile is the nearest-rank quantile q (0 < q <= 1) of ascending latencies:
// the smallest one that is not exceeded by at least q of them. It is one of
// the samples, never an interpolation. ok is false when they do not support
// it; the value is then still the nearest rank, or 0 without samples.
func Quantile(sorted []time.Duration, q float64) (value time.Duration, ok bool) {
	n := len(sorted)
	if n == 0 {
		return 0, false
	}
	// The small term undoes binary rounding such as 0.999×10,000 = 9,990.000…1.
	rank := int(math.Ceil(q*float64(n) - 1e-6))
	rank = min(max(rank, 1), n)
	return sorted[rank-1], Supported(n, q)
}
