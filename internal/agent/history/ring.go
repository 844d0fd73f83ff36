package history

import (
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-project/berth/internal/capability"
)

// Kept is the minimum of samples in a full ring, as long as they fit.
const Kept = 15 * samples

// Bounds of a ring.
const (
	// mostSeries is the maximum of series at a time; a workload has measures of them.
	mostSeries = 5000
	// mostBytes is the maximum size of the closed minutes. 5,000 busy series need about 5 MiB.
	mostBytes = 8 << 20
)

// ring has the last samples. It is safe for concurrent use.
type ring struct {
	bytes int // at most

	mu sync.Mutex
	// closed are full minutes, the oldest first; taken is their size in bytes.
	closed []*minute
	taken  int
	// times and tracks are the open minute; the name of the node is empty.
	times  []int64
	tracks map[string]*track

	counted struct{ series, refused, bytes atomic.Int64 }
}

// track is a workload in the open minute.
type track struct {
	name    string
	columns [measures]column
	// before is the previous moment, zero if there is none.
	before capability.Moment
	// samples is the number of its samples; seen is that number after its last known sample.
	samples, seen int
}

// newRing returns an empty ring of at most this many bytes.
func newRing(bytes int) *ring {
	return &ring{bytes: bytes, tracks: map[string]*track{}}
}

// Size is the size of a History.
type Size struct {
	// Series is the number of series now. Refused is how many were refused because of the maximum.
	Series, Refused int64
	// Bytes is the size of the closed minutes in memory, Stored the size on disk.
	Bytes, Stored int64
	// Stopped is true if the last minute is missing on disk.
	Stopped bool
}

// size returns the size of the ring. It never waits.
func (r *ring) size() Size {
	return Size{Series: r.counted.series.Load(), Refused: r.counted.refused.Load(), Bytes: r.counted.bytes.Load()}
}

// add adds a sample of all workloads. It returns the minute that the sample filled, if any.
func (r *ring) add(at time.Time, all []capability.Moment) (full *minute) {
	r.mu.Lock()
	defer r.mu.Unlock()
	refused := 0
	for i := range all {
		t := r.tracks[all[i].Workload]
		if t == nil {
			if measures*(len(r.tracks)+1) > mostSeries {
				refused++
				continue
			}
			t = &track{name: strings.Clone(all[i].Workload)}
			r.tracks[t.name] = t
		}
		t.take(&all[i], len(r.times))
	}
	r.times = append(r.times, at.UnixMilli())
	for _, t := range r.tracks {
		t.fill(len(r.times))
	}
	if len(r.times) == samples {
		full = r.close()
	}
	r.counted.series.Store(int64(measures * len(r.tracks)))
	r.counted.refused.Store(int64(measures * refused))
	r.counted.bytes.Store(int64(r.taken))
	return full
}

// rest returns the open minute.
func (r *ring) rest() *minute {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.opened(slices.Sorted(maps.Keys(r.tracks)))
}

// take adds a moment as sample number before. It ignores a second moment of the same name.
func (t *track) take(m *capability.Moment, before int) {
	if t.fill(before); t.samples > before {
		return
	}
	s := since(m, &t.before)
	t.before = *m
	t.before.Workload = "" // the name would retain a larger string
	for i := range t.columns {
		t.columns[i].add(s[i])
	}
	t.samples++
	t.seen = t.samples
}

// fill adds unknown samples until the track has all samples.
func (t *track) fill(all int) {
	for ; t.samples < all; t.samples++ {
		for i := range t.columns {
			t.columns[i].add(none)
		}
	}
}

// since returns the sample of a moment, given the moment before. Differences are unknown without a moment before, or if
// the group was created again.
func since(m, before *capability.Moment) sample {
	s := sample{
		limit: thousandthsOf(m.Limit), now: thousandthsOf(m.Now), credit: thousandthsOf(m.Credit), capacity: thousandthsOf(m.Capacity),
		used: none, periods: none, throttled: none, above: none,
	}
	if before.At != 0 && m.At > before.At && m.Used >= before.Used {
		s[used] = thousandthsOf(float64(m.Used.Since(before.Used).Seconds().Per(m.At - before.At)))
	}
	if before.At != 0 && m.Periods >= before.Periods && m.Throttled >= before.Throttled && m.Above >= before.Above {
		s[periods], s[throttled], s[above] = difference(m.Periods, before.Periods), difference(m.Throttled, before.Throttled), difference(m.Above, before.Above)
	}
	return s
}

// thousandthsOf rounds an amount to thousandths.
func thousandthsOf(v float64) int64 {
	switch v *= thousandths; {
	case math.IsNaN(v):
		return none
	case v >= farthest:
		return farthest
	case v <= -farthest:
		return -farthest
	}
	return int64(math.Round(v))
}

func difference(now, before uint64) int64 { return int64(min(now-before, farthest)) } //nolint:gosec // it fits

// close closes the open minute, and drops the oldest minutes beyond the bounds.
func (r *ring) close() *minute {
	for name, t := range r.tracks {
		if t.seen == 0 {
			delete(r.tracks, name)
		}
	}
	m := r.opened(slices.Sorted(maps.Keys(r.tracks)))
	for _, t := range r.tracks {
		t.samples, t.seen = 0, 0
		for i := range t.columns {
			t.columns[i].reset()
		}
	}
	r.times = r.times[:0]
	r.closed = append(r.closed, m)
	r.taken += m.size()
	for len(r.closed) > Kept/samples || r.taken > r.bytes {
		r.taken -= r.closed[0].size()
		r.closed = slices.Delete(r.closed, 0, 1)
	}
	return m
}

// opened returns the open minute, with the given workloads, as a closed minute.
func (r *ring) opened(names []string) *minute {
	m := &minute{times: slices.Clone(r.times), names: names, ends: make([]uint32, 0, len(names))}
	size := 0
	for _, name := range names {
		for i := range r.tracks[name].columns {
			size += len(r.tracks[name].columns[i].text) + longestRun
		}
	}
	text := make([]byte, 0, size)
	for _, name := range names {
		for i := range r.tracks[name].columns {
			c := &r.tracks[name].columns[i]
			text = c.whole(append(text, c.text...))
		}
		m.ends = append(m.ends, uint32(len(text))) //nolint:gosec // the series of a minute have less
	}
	m.text = slices.Clone(text)
	return m
}
