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

// gap is how far apart two samples are at least between which no agent ran.
const gap = 10 * time.Second

// counterBase is where counters begin. From 0 Prometheus would take the first sample of a range for
// the birth of the counter, and see less of its rate.
const counterBase = 1 << 30

// curve is a series as it is read: a sample for each step. Where it ends it has the marker by which
// Prometheus knows that.
type curve struct {
	metric *metric
	name   string // of the workload
	labels labels.Labels
	step   int64 // in ms; 1 joins none

	points []point
	// at is when the last sample was taken, known or not.
	at int64
	// sum and count are those of the samples of the last step, all is the sum of the whole.
	sum, all float64
	count    int
}

// point is one sample.
type point struct {
	at    int64
	value float64
}

// add adds a sample. One that is not later than the one before is left out: the clock was set back.
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

// take adds a value to the last point, or as a new one.
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

// end says that the series ends, unless it did.
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

// Len is how many there are.
func (p points) Len() int { return len(p) }

// Get returns one of them.
func (p points) Get(i int) chunks.Sample { return &p[i] }

// T is its time.
func (p *point) T() int64 { return p.at }

// F is its value.
func (p *point) F() float64 { return p.value }

// H is none.
func (*point) H() *histogram.Histogram { return nil }

// FH is none.
func (*point) FH() *histogram.FloatHistogram { return nil }

// Type is that of a number.
func (*point) Type() chunkenc.ValueType { return chunkenc.ValFloat }

// Copy returns another one.
func (p *point) Copy() chunks.Sample {
	other := *p
	return &other
}
