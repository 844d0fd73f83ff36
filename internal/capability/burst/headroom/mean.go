package headroom

import (
	"math"
	"time"
)

// MeanWindow is how far back the mean use of a node reaches.
const MeanWindow = 10 * time.Second

// meanSlots bounds how many samples a Mean stores. Samples closer together than MeanWindow/meanSlots are joined.
const meanSlots = 64

// Mean is the mean of a rate over the last MeanWindow, weighted by time. The
// zero value is empty and ready. It is a value of fixed size: no sample
// allocates.
type Mean struct {
	points [2*meanSlots + 3]point // the oldest first; at most two in a slot
	n      int
}

// point is the integral of the rate up to a moment.
type point struct {
	at  time.Duration
	sum float64 // rate x seconds
}

// Add records that the rate was v between the previous sample and at (monotonic). The first sample only opens the
// window. Add drops a sample that is not later than the last, or not a number.
func (m *Mean) Add(at time.Duration, v float64) {
	if m.n == 0 {
		m.points[0], m.n = point{at: at}, 1
		return
	}
	if at <= m.points[m.n-1].at || math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	m.forget(at - MeanWindow) // first, because forget restarts the sum
	last := m.points[m.n-1]
	next := point{at: at, sum: last.sum + v*(at-last.at).Seconds()}
	if m.n > 1 && at-m.points[m.n-2].at < MeanWindow/meanSlots {
		m.points[m.n-1] = next
		return
	}
	m.points[m.n] = next
	m.n++
}

// forget drops what is wholly before the window that begins at start, and restarts the integral so that it stays small.
func (m *Mean) forget(start time.Duration) {
	k := 0
	for k+1 < m.n && (m.points[k+1].at <= start || m.n-k >= len(m.points)) {
		k++
	}
	if k == 0 {
		return
	}
	base := m.points[k].sum
	copy(m.points[:], m.points[k:m.n])
	m.n -= k
	for i := range m.n {
		m.points[i].sum -= base
	}
}

// Value returns the mean over the last MeanWindow before the latest sample, or over all samples if they are shorter;
// NaN before two samples.
func (m *Mean) Value() float64 {
	if m.n < 2 {
		return math.NaN()
	}
	last := m.points[m.n-1]
	start := max(last.at-MeanWindow, m.points[0].at)
	i := 1
	for m.points[i].at <= start {
		i++
	}
	a, b := m.points[i-1], m.points[i]
	part := (start - a.at).Seconds() / (b.at - a.at).Seconds()
	return (last.sum - a.sum - part*(b.sum-a.sum)) / (last.at - start).Seconds()
}
