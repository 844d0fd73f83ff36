package bench

import "time"

// The default load, found by experiment on a machine of two CPUs. Its mean is less than half the limit, in bursts that
// need several times the limit. The limit alone at least triples the unlimited p99, while the whole machine stays less
// than half busy.
const (
	DefaultLimit = 0.5
	DefaultRate  = 5.0
	DefaultBatch = 40
	DefaultWork  = 1200 * time.Microsecond
)
