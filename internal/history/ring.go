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

// Kept is how many samples a ring has at least, once it is full, and as long as they fit.
const Kept = 15 * samples

// Bounds of a ring.
const (
	// mostSeries is how many series there are at a time, measures of them a workload.
	mostSeries = 5000
	// mostBytes is what the closed minutes have. 5,000 busy series need about 5 MiB.
	mostBytes = 8 << 20
)

// ring has the last samples. It is safe for concurrent use.
type ring struct {
	bytes int // at most

	mu sync.Mutex
	// closed are full minutes, the oldest first, of so many bytes.
	closed []*minute
	taken  int
	// times and tracks are the minute that is open; the node has the empty name.
	times  []int64
	tracks map[string]*track

	counted struct{ series, refused, bytes atomic.Int64 }
}

// track is a workload in the minute that is open.
type track struct {
	name    string
	columns [measures]column
	// before is the moment before, zero where there is none.
	before capability.Moment
	// samples is how many it has, seen how many it had after the last that is known.
	samples, seen int
}

// newRing returns a ring without samples, of at most so many bytes.
func newRing(bytes int) *ring {
	return &ring{bytes: bytes, tracks: map[string]*track{}}
}

// Size is how much a History has.
type Size struct {
	// Series are those of now, Refused those that came when there were as many as there may be.
	Series, Refused int64
	// Bytes are those of the closed minutes in memory, Stored those on disk.
	Bytes, Stored int64
	// Stopped says that the last minute is not on disk although it should.
	Stopped bool
}

// size returns how much the ring has. It waits for nothing.
func (r *ring) size() Size {
	return Size{Series: r.counted.series.Load(), Refused: r.counted.refused.Load(), Bytes: r.counted.bytes.Load()}
}

// add adds a sample of all workloads. It returns the minute that this one filled, if it did.
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

// rest is the minute that is open.
func (r *ring) rest() *minute {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.opened(slices.Sorted(maps.Keys(r.tracks)))
}

// take adds a moment after so many samples. One of a name that the sample has already is left out.
func (t *track) take(m *capability.Moment, before int) {
	if t.fill(before); t.samples > before {
		return
	}
	s := since(m, &t.before)
	t.before = *m
	t.before.Workload = "" // the name would keep a text of others alive
	for i := range t.columns {
		t.columns[i].add(s[i])
	}
	t.samples++
	t.seen = t.samples
}

// fill adds samples that are not known, up to so many in all.
func (t *track) fill(all int) {
	for ; t.samples < all; t.samples++ {
		for i := range t.columns {
			t.columns[i].add(none)
		}
	}
}

// since is the sample of a moment, given the one before. What is a difference is not known where
// there is none before, or the group was made anew.
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

// thousandthsOf rounds an amount.
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

// difference is how much a count grew.
func difference(now, before uint64) int64 { return int64(min(now-before, farthest)) } //nolint:gosec // it fits

// close closes the minute that is open, and forgets what is too old or too much.
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

// opened is the minute that is open, with some of its workloads, as a closed one.
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
