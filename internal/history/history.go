package history

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
)

// History has the last minutes in memory and, where it has a directory, earlier ones on disk. It is
// safe for concurrent use.
type History struct {
	opts Options
	ring *ring

	mu      sync.Mutex
	archive *archive // nil where there is none, or while it is opened

	// stopped says that the last minute is not on disk although it should, stored is how much is.
	stopped atomic.Bool
	stored  atomic.Int64
}

// Options say what is on disk.
type Options struct {
	// Dir has the files, empty for none.
	Dir string
	Limits
	Log *slog.Logger
}

// In returns the options of an agent with a state directory, where the files have one of their own.
func In(stateDir string, h v1alpha1.HistoryConfig, log *slog.Logger) Options {
	o := Options{Log: log}
	if h.Enabled != nil && *h.Enabled { // in a test there may be no defaults
		o.Dir = filepath.Join(stateDir, "history")
		o.Limits = Limits{Retention: h.Period(), Bytes: h.Bytes()}
	}
	return o
}

// New returns a History that has nothing in memory.
func New(o Options) *History { return &History{opts: o, ring: newRing(mostBytes)} }

// Size is how much there is. It waits for nothing.
func (h *History) Size() Size {
	s := h.ring.size()
	s.Stored, s.Stopped = h.stored.Load(), h.stopped.Load()
	return s
}

// disk is the archive, nil where there is none.
func (h *History) disk() *archive {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.archive
}

// open reads what is on disk. Without a directory that can be used there is no disk.
func (h *History) open() {
	if h.opts.Dir == "" {
		return
	}
	a, err := openArchive(h.opts.Dir, h.opts.Limits, h.opts.Log)
	if err != nil {
		h.opts.Log.Warn("history is kept in memory only", "error", err)
		h.stopped.Store(true)
		return
	}
	h.stored.Store(a.bytes())
	h.mu.Lock()
	defer h.mu.Unlock()
	h.archive = a
}

// Add adds a sample, and writes the minute that it fills.
func (h *History) Add(at time.Time, all []capability.Moment) {
	full := h.ring.add(at, all)
	if a := h.disk(); a != nil && full != nil {
		h.stopped.Store(!a.keep(full))
		h.stored.Store(a.bytes())
	}
}

// close writes the minute that is open.
func (h *History) close() error {
	if a := h.disk(); a != nil {
		return a.close(h.ring.rest())
	}
	return nil
}

// Longest is how many seconds back Of may reach.
func (h *History) Longest() int {
	if h.opts.Dir == "" {
		return Kept
	}
	return max(Kept, int(h.opts.Retention.Seconds()))
}

// Recent returns the throttling of all workloads in the last samples, at most so many.
func (h *History) Recent(most int) (Past, error) { return h.ring.recent(most) }

// Of returns what is known of a workload in the last seconds, and whether anything is. Samples of
// so many seconds as step says are joined, and of more where there were too many.
func (h *History) Of(workload string, seconds, step int) (Past, bool, error) {
	if workload == node {
		return Past{}, false, nil
	}
	minutes, _ := h.ring.last(Kept, workload)
	f := fold{name: workload, from: math.MinInt64, until: math.MaxInt64, past: Past{Times: []int64{}}}
	if step = max(step, (seconds+mostShown-1)/mostShown); step > 1 {
		f.step = int64(step) * time.Second.Milliseconds()
	}
	begin, end := spanOf(minutes)
	a := h.disk()
	if a != nil && end == 0 {
		end = a.newest()
	}
	f.from = end - int64(seconds)*time.Second.Milliseconds()
	if a != nil && begin > f.from {
		f.until = begin
		if err := a.between(f.from, begin, f.add); err != nil && !errors.Is(err, ErrDamaged) {
			return Past{}, false, err
		}
		f.until = math.MaxInt64
	}
	for _, m := range minutes {
		if err := f.add(m); err != nil {
			return Past{}, false, fmt.Errorf("history of %q: %w", workload, err)
		}
	}
	return f.result(), f.known, nil
}

// spanOf are the times of the first and of the last sample. After the clock was set back, the last
// one is not the latest.
func spanOf(minutes []*minute) (begin, end int64) {
	begin = math.MaxInt64
	for _, m := range minutes {
		if n := len(m.times); n > 0 {
			begin, end = min(begin, m.times[0]), m.times[n-1]
		}
	}
	return begin, end
}
