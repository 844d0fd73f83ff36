package history

import (
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

// History has the last minutes in memory and, with a directory, earlier minutes on disk. It is safe for concurrent use.
type History struct {
	opts Options
	ring *ring

	mu      sync.Mutex
	archive *archive // nil without a directory, or while it is being opened

	// stopped is true if the last minute is missing on disk; stored is the size on disk in bytes.
	stopped atomic.Bool
	stored  atomic.Int64
}

// Options configure the history on disk.
type Options struct {
	// Dir is the directory of the files, empty for none.
	Dir string
	Limits
	Log *slog.Logger
}

// In returns the options of an agent with a state directory, where the files have a subdirectory.
func In(stateDir string, h v1alpha1.HistoryConfig, log *slog.Logger) Options {
	o := Options{Log: log}
	if h.Enabled != nil && *h.Enabled { // tests may have no defaults
		o.Dir = filepath.Join(stateDir, "history")
		o.Limits = Limits{Retention: h.Period(), Bytes: h.Bytes()}
	}
	return o
}

// New returns an empty History.
func New(o Options) *History { return &History{opts: o, ring: newRing(mostBytes)} }

// Size returns the size of the history. It never waits.
func (h *History) Size() Size {
	s := h.ring.size()
	s.Stored, s.Stopped = h.stored.Load(), h.stopped.Load()
	return s
}

// disk returns the archive, nil if there is none.
func (h *History) disk() *archive {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.archive
}

// open opens the archive. If the directory cannot be used, the history is in memory only.
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

// Add adds a sample to the ring. If the sample completes a minute, Add also writes that minute to the archive, if any.
func (h *History) Add(at time.Time, all []capability.Moment) {
	full := h.ring.add(at, all)
	if a := h.disk(); a != nil && full != nil {
		h.stopped.Store(!a.keep(full))
		h.stored.Store(a.bytes())
	}
}

// close writes the open minute.
func (h *History) close() error {
	if a := h.disk(); a != nil {
		return a.close(h.ring.rest())
	}
	return nil
}

// Longest returns how many seconds back Of may reach.
func (h *History) Longest() int {
	if h.opts.Dir == "" {
		return Kept
	}
	return max(Kept, int(h.opts.Retention.Seconds()))
}

// Recent returns the throttling of all workloads in the last samples, at most most of them.
func (h *History) Recent(most int) (Past, error) { return h.ring.recent(most) }

// Of returns the samples of a workload in the last seconds, and whether any is known. It joins the samples of each
// step, in seconds, or of a longer step if there are more than mostShown.
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
		if err := a.between(f.from, begin, f.add); err != nil {
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

// spanOf returns the times of the first and the last sample. After the clock was set back, the last sample is not the
// latest.
func spanOf(minutes []*minute) (begin, end int64) {
	begin = math.MaxInt64
	for _, m := range minutes {
		if n := len(m.times); n > 0 {
			begin, end = min(begin, m.times[0]), m.times[n-1]
		}
	}
	return begin, end
}
