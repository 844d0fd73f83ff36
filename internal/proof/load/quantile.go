package load

import (
	"math"
	"slices"
	"time"
)

// samplesAbove is how many samples must lie above a quantile to support it. With ten, the random error of the rank
// (about the square root of the number above) is a third of the distance to the maximum. With fewer, one lucky request
// decides the figure.
const samplesAbove = 10

// Supported reports whether n samples support quantile q (0..1): at least ten of them lie above it. p50 needs 20, p95
// 200, p99 1,000, p99.9 10,000.
func Supported(n int, q float64) bool {
	return float64(n)*(1-q) >= samplesAbove-1e-6
}

// Sorted returns the latencies of the samples in ascending order. A failed request counts with the time until it
// failed: without it, a server that answers less would look better.
func Sorted(samples []Sample) []time.Duration {
	latencies := make([]time.Duration, len(samples))
	for i, s := range samples {
		latencies[i] = s.Latency
	}
	slices.Sort(latencies)
	return latencies
}

// Quantile returns the nearest-rank quantile q (0 < q <= 1) of ascending latencies: the smallest latency that at least
// q of them do not exceed. It is one of the samples, never an interpolation. ok is false when the samples do not
// support q; value is then still the nearest rank, or 0 without samples.
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
