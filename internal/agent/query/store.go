package query

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/berth-project/berth/internal/agent/history"
)

// workloadLabel is the label with the workload's name, as at /metrics without Kubernetes.
const workloadLabel = "workload"

const (
	// mostSamples is how many samples a query may read, and have in memory at a time.
	mostSamples = 500_000
	// lookback is the greatest age of a sample that is still the value at a moment.
	lookback = 5 * time.Minute
	// finest is the distance between samples of the history.
	finest = time.Second
	// fewestInWindow and mostInWindow bound the joined samples in the window of a range vector.
	fewestInWindow, mostInWindow = 4, 1000
)

// Past is the history.
type Past interface {
	// Between calls do for the history from one time until another, in Unix milliseconds.
	Between(from, until int64, do func(history.Stretch) error) error
}

// store is a Past as a storage.Queryable. A query reads at most most samples.
type store struct {
	past Past
	most int64
}

// Querier implements storage.Queryable. One query uses one Querier.
func (s store) Querier(from, until int64) (storage.Querier, error) {
	return s.between(from, until), nil
}

// between returns a querier for the time between from and until.
func (s store) between(from, until int64) *querier {
	return &querier{past: s.past, from: from, until: until, most: s.most, left: s.most}
}

// querier implements storage.Querier.
type querier struct {
	past        Past
	from, until int64
	// left is how many samples it may still read, out of most.
	most, left int64
}

// Close implements storage.Querier.
func (q *querier) Close() error { return nil }

// found are the matching series, without samples, and the times of the first and last sample.
type found struct {
	curves      []*curve // sorted by their labels
	first, last int64
}

// find returns the series that match between two times.
func (q *querier) find(ctx context.Context, from, until int64, matchers []*labels.Matcher) (found, error) {
	asked := slices.DeleteFunc(metrics(), func(m metric) bool { return !matches(matchers, labels.MetricName, m.name) })
	f := found{first: math.MaxInt64, last: math.MinInt64}
	if len(asked) == 0 {
		return f, nil
	}
	names := map[string]bool{}
	err := q.past.Between(from, until, func(s history.Stretch) error {
		for _, at := range s.Times() {
			f.first, f.last = min(f.first, at), max(f.last, at)
		}
		for _, name := range s.Names() {
			names[name] = true
		}
		return ctx.Err()
	})
	if err != nil {
		return found{}, fmt.Errorf("%w: %w", ErrHistory, err)
	}
	for i := range asked {
		for name := range names {
			c := &curve{metric: &asked[i], name: name}
			if c.labels = c.named(); asked[i].ofNode == (name == history.Node) && matchesAll(matchers, c.labels) {
				f.curves = append(f.curves, c)
			}
		}
	}
	slices.SortFunc(f.curves, func(a, b *curve) int { return labels.Compare(a.labels, b.labels) })
	return f, nil
}

// named returns the labels of a curve.
func (c *curve) named() labels.Labels {
	if c.metric.ofNode {
		return labels.FromStrings(labels.MetricName, c.metric.name)
	}
	return labels.FromStrings(labels.MetricName, c.metric.name, workloadLabel, c.name)
}

// matches reports whether the matchers allow this value of a label.
func matches(matchers []*labels.Matcher, name, value string) bool {
	return !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return m.Name == name && !m.Matches(value) })
}

// matchesAll reports whether all matchers match the labels.
func matchesAll(matchers []*labels.Matcher, all labels.Labels) bool {
	return !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(all.Get(m.Name)) })
}

// Select implements storage.Querier. The series are sorted by their labels.
func (q *querier) Select(ctx context.Context, _ bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	if hints == nil {
		hints = &storage.SelectHints{Start: q.from, End: q.until}
	}
	f, err := q.find(ctx, hints.Start, hints.End, matchers)
	if err == nil && len(f.curves) > 0 {
		err = q.read(ctx, f, hints)
	}
	if err != nil {
		return storage.ErrSeriesSet(err)
	}
	return &set{curves: f.curves, i: -1}
}

// read reads the samples of curves, in steps that fit the limit.
func (q *querier) read(ctx context.Context, f found, hints *storage.SelectHints) error {
	from, until := max(hints.Start, f.first), min(hints.End, f.last)
	step, most, err := q.resolution(len(f.curves), time.Duration(max(until-from, 0))*time.Millisecond, hints)
	if err != nil {
		return err
	}
	q.left -= most
	for _, c := range f.curves {
		c.step = step.Milliseconds()
	}
	ordered := byName(f.curves)
	err = q.past.Between(from, until, func(s history.Stretch) error {
		if err := take(ordered, s, from, until); err != nil {
			return err
		}
		return ctx.Err()
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrHistory, err)
	}
	return nil
}

// take adds the samples of a Stretch between two times to the curves. The curves of one workload are adjacent.
func take(curves []*curve, s history.Stretch, from, until int64) error {
	var w history.Workload
	for i, c := range curves {
		if i == 0 || w.Name != c.name {
			var err error
			if w, err = s.Of(c.name); err != nil {
				return err
			}
		}
		column := c.metric.column(&w)
		for k, at := range s.Times() {
			if at >= from && at <= until {
				c.add(at, column[k])
			}
		}
	}
	return nil
}

// byName returns the curves with those of one workload adjacent.
func byName(curves []*curve) []*curve {
	all := slices.Clone(curves)
	slices.SortStableFunc(all, func(a, b *curve) int { return cmp.Compare(a.name, b.name) })
	return all
}

// resolution returns the step for this many curves, and the most samples that they have together. The step is as fine
// as the limit allows, but each window, or each moment, must have some samples.
func (q *querier) resolution(curves int, span time.Duration, hints *storage.SelectHints) (time.Duration, int64, error) {
	window, step := time.Duration(hints.Range)*time.Millisecond, time.Duration(hints.Step)*time.Millisecond
	fine, coarse := finest, lookback
	switch {
	case window > 0:
		fine, coarse = max(finest, window/mostInWindow), window/fewestInWindow
	case step > 0:
		coarse = min(step, lookback/fewestInWindow)
	}
	count := func(step time.Duration) int64 { return int64(curves) * (int64(span/step) + 2) }
	use := fine
	if n := count(fine); n > q.left {
		use = max(fine, time.Duration(float64(span)*float64(curves)/float64(max(q.left-2*int64(curves), 1))))
	}
	use = (use + finest - 1).Truncate(finest) // rate extrapolates best from equidistant samples
	if n := count(use); n > q.left || use > max(coarse, fine) {
		return 0, 0, fmt.Errorf("%w: %d series over %s have %d samples even with one in %s, allowed: %d of %d left for this query; ask for fewer workloads, a shorter time, or a longer window or step",
			ErrCost, curves, span.Round(time.Second), count(max(coarse, fine)), max(coarse, fine), q.left, q.most)
	}
	most := count(use)
	if use <= finest {
		use = time.Millisecond // all samples, not joined
	}
	return use, most, nil
}

// set implements storage.SeriesSet.
type set struct {
	curves []*curve
	i      int
}

// Next advances to the next series.
func (s *set) Next() bool {
	s.i++
	return s.i < len(s.curves)
}

// At returns the current series.
func (s *set) At() storage.Series { return s.curves[s.i] }

// Err returns nil: a failure is returned as a set of its own.
func (s *set) Err() error { return nil }

// Warnings returns none.
func (s *set) Warnings() annotations.Annotations { return nil }

// LabelNames implements storage.Querier.
func (q *querier) LabelNames(ctx context.Context, _ *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	f, err := q.find(ctx, q.from, q.until, matchers)
	names := map[string]bool{}
	for _, c := range f.curves {
		c.labels.Range(func(l labels.Label) { names[l.Name] = true })
	}
	return sorted(names), nil, err
}

// LabelValues implements storage.Querier.
func (q *querier) LabelValues(ctx context.Context, name string, _ *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	f, err := q.find(ctx, q.from, q.until, matchers)
	values := map[string]bool{}
	for _, c := range f.curves {
		if c.labels.Has(name) {
			values[c.labels.Get(name)] = true
		}
	}
	return sorted(values), nil, err
}

// sorted returns the elements of a set, never nil.
func sorted(set map[string]bool) []string {
	all := slices.AppendSeq(make([]string, 0, len(set)), maps.Keys(set))
	slices.Sort(all)
	return all
}
