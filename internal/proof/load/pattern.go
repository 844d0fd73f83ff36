package load

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Bounds of one generated schedule. They prevent a mistyped flag from filling the machine's memory or loading it for
// hours.
const (
	MaxArrivals = 1_000_000
	MaxDuration = time.Hour
)

// Pattern describes bursty arrivals: batches of requests that arrive at the same instant. The zero value is invalid.
type Pattern struct {
	// Seed selects the random numbers; the same seed gives the same arrivals.
	Seed uint64
	// Rate is the mean number of batches per second, above 0.
	Rate float64
	// Batch is the number of requests that arrive together, at least 1.
	Batch int
	// Regular spaces the batches evenly; otherwise the gaps between them are exponential (a Poisson process of batches)
	// and the seed matters.
	Regular bool
}

// Arrivals returns the intended start times of all requests in the first d, in ascending order, relative to the start.
// It is a pure function. It fails with ErrBadLoad or ErrTooMuch.
func (p Pattern) Arrivals(d time.Duration) ([]time.Duration, error) {
	if p.Rate <= 0 || p.Batch < 1 || d <= 0 {
		return nil, fmt.Errorf("pattern rate %g batch %d duration %s: %w", p.Rate, p.Batch, d, ErrBadLoad)
	}
	expected := p.Rate * d.Seconds() * float64(p.Batch)
	if d > MaxDuration || expected > MaxArrivals/2 {
		return nil, fmt.Errorf("pattern of about %.0f requests in %s (at most %d in %s): %w",
			expected, d, MaxArrivals/2, MaxDuration, ErrTooMuch)
	}
	random := rand.New(rand.NewPCG(p.Seed, 0x6265727468))
	arrivals := make([]time.Duration, 0, int(expected)+p.Batch)
	for at := p.gap(random); at < d && len(arrivals) < MaxArrivals; at += p.gap(random) {
		for range p.Batch {
			arrivals = append(arrivals, at)
		}
	}
	return arrivals, nil
}

func (p Pattern) gap(random *rand.Rand) time.Duration {
	seconds := 1 / p.Rate
	if !p.Regular {
		seconds *= random.ExpFloat64()
	}
	return max(time.Duration(seconds*float64(time.Second)), time.Nanosecond)
}
