package query

import (
	"math"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
)

// gap is the least distance of two samples between which no agent ran.
const gap = 10 * time.Second

// counterBase is the start value of counters. From 0, Prometheus would take the first sample of a range for the birth
// of the counter, and underestimate its rate.
const counterBase = 1 << 30

// curve is a series while it is read: a sample for each step. Prometheus' stale marker ends it.
type curve struct {
	metric *metric
	name   string // of the workload
	labels labels.Labels
	step   int64 // in ms; 1 joins none

	points []point
	// at is the time of the last sample, known or not.
	at int64
	// sum and count are of the samples in the last step; all is the sum of the whole curve.
	sum, all float64
	count    int
}

// point is one sample.
type point struct {
	at    int64
	value float64
}

// add adds a sample. It skips a sample that is not later than the one before: the clock was set back.
func (c *curve) add(at int64, v float64) {
	if at <= c.at && c.at != 0 {
		return
	}
	if c.at != 0 && at-c.at > max(gap.Milliseconds(), 2*c.step) {
		c.end(c.at + 1)
	}
	c.at = at
	if math.IsNaN(v) {
		if n := len(c.points); n > 0 && c.points[n-1].at/c.step != at/c.step {
			c.end(at)
		}
		return
	}
	c.take(at, c.metric.value(v))
}

// take adds a value to the last point, or appends a point.
func (c *curve) take(at int64, v float64) {
	if n := len(c.points); n == 0 || c.points[n-1].at/c.step != at/c.step || value.IsStaleNaN(c.points[n-1].value) {
		c.points = append(c.points, point{})
		c.sum, c.count = 0, 0
	}
	c.sum, c.all, c.count = c.sum+v, c.all+v, c.count+1
	switch c.metric.kind {
	case mean:
		v = c.sum / float64(c.count)
	case total:
		v = counterBase + c.all
	case last:
	}
	c.points[len(c.points)-1] = point{at: at, value: v}
}

// end appends the stale marker unless the series has already ended.
func (c *curve) end(at int64) {
	if n := len(c.points); n > 0 && !value.IsStaleNaN(c.points[n-1].value) {
		c.points = append(c.points, point{at: at, value: math.Float64frombits(value.StaleNaN)})
	}
}

// Labels implements storage.Series.
func (c *curve) Labels() labels.Labels { return c.labels }

// Iterator implements storage.Series.
func (c *curve) Iterator(chunkenc.Iterator) chunkenc.Iterator {
	return storage.NewListSeriesIterator(points(c.points))
}

// points implement storage.Samples.
type points []point

// Len returns the number of points.
func (p points) Len() int { return len(p) }

// Get returns point i.
func (p points) Get(i int) chunks.Sample { return &p[i] }

// T returns its time.
func (p *point) T() int64 { return p.at }

// F returns its value.
func (p *point) F() float64 { return p.value }

// H returns nil.
func (*point) H() *histogram.Histogram { return nil }

// FH returns nil.
func (*point) FH() *histogram.FloatHistogram { return nil }

// Type returns the type of a float sample.
func (*point) Type() chunkenc.ValueType { return chunkenc.ValFloat }

// Copy returns a copy.
func (p *point) Copy() chunks.Sample {
	other := *p
	return &other
}
