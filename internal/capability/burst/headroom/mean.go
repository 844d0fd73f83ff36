package headroom

import (
	"math"
	"slices"
	"time"
)

// MeanWindow is how far back the mean use of a node reaches.
const MeanWindow = 10 * time.Second

// meanSlots bounds how many spans a Mean stores: it joins samples closer together than MeanWindow/meanSlots.
const meanSlots = 64

// Mean is the mean of a rate over the last MeanWindow, weighted by time. The
// zero value is empty and ready.
type Mean struct {
	spans []span // the oldest first; at most two in a slot
}

// span is the time between two samples, with the mean rate.
type span struct {
	from, to time.Duration
	rate     float64
}

// Add records that the rate was v between the previous sample and at (monotonic). The first sample only opens the
// window. Add drops a sample that is not later than the last, or not a number.
func (m *Mean) Add(at time.Duration, v float64) {
	if len(m.spans) == 0 {
		m.spans = append(make([]span, 0, 2*meanSlots+3), span{from: at, to: at})
		return
	}
	last := &m.spans[len(m.spans)-1]
	if at <= last.to || math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	if at-last.from < MeanWindow/meanSlots {
		last.rate = (last.rate*(last.to-last.from).Seconds() + v*(at-last.to).Seconds()) / (at - last.from).Seconds()
		last.to = at
	} else {
		m.spans = append(m.spans, span{last.to, at, v})
	}
	m.spans = slices.DeleteFunc(m.spans, func(s span) bool { return s.to <= at-MeanWindow })
}

// Value returns the mean over the last MeanWindow before the latest sample, or over all samples if they are shorter;
// NaN before two samples.
func (m *Mean) Value() float64 {
	if len(m.spans) == 0 {
		return math.NaN()
	}
	end := m.spans[len(m.spans)-1].to
	start := max(end-MeanWindow, m.spans[0].from)
	sum := 0.0
	for _, s := range m.spans {
		sum += s.rate * (s.to - max(s.from, start)).Seconds()
	}
	return sum / (end - start).Seconds()
}
