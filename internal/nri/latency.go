package nri

import (
	"slices"
	"sync"
	"time"
)

const bucketCount = 12

// buckets are the upper bounds of the latency histogram; one more is above.
func buckets() [bucketCount]time.Duration {
	return [bucketCount]time.Duration{
		100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
		time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
		10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
		100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	}
}

// Latency is how long the runtime waited for replies: from an event's arrival
// to its reply, time spent behind other events included.
type Latency struct {
	// Bounds are the upper bounds of the buckets, and Counts has how many
	// requests each took, not cumulative; the last of Counts is above all.
	Bounds []time.Duration
	Counts []uint64
	// Count and Sum are the number of all requests and the time of all.
	Count uint64
	Sum   time.Duration
}

// Quantile returns an upper bound of the q-quantile, 0 < q <= 1: the bound of
// the bucket that it is in, for the last one the mean of all if that is above.
// It is 0 when nothing was counted.
func (l Latency) Quantile(q float64) time.Duration {
	if l.Count == 0 {
		return 0
	}
	rank := q * float64(l.Count)
	seen := uint64(0)
	for i, bound := range l.Bounds {
		seen += l.Counts[i]
		if float64(seen) >= rank {
			return bound
		}
	}
	return max(l.Bounds[len(l.Bounds)-1], l.Sum/time.Duration(l.Count))
}

// latency is the histogram that is counted in.
type latency struct {
	mu     sync.Mutex
	counts [bucketCount + 1]uint64
	sum    time.Duration
}

func (l *latency) add(d time.Duration) {
	bounds := buckets()
	i, _ := slices.BinarySearch(bounds[:], d)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[i]++
	l.sum += d
}

// Latency returns the histogram of all requests that the runtime waited for.
func (p *Plugin) Latency() Latency {
	bounds := buckets()
	p.latency.mu.Lock()
	defer p.latency.mu.Unlock()
	l := Latency{Bounds: bounds[:], Counts: slices.Clone(p.latency.counts[:]), Sum: p.latency.sum}
	for _, n := range l.Counts {
		l.Count += n
	}
	return l
}
