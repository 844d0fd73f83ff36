package mover

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/locality"
)

// Options are what a mover works with.
type Options struct {
	Root *hostfs.Root
	Host *cgroup.Host
	// Clock is monotonic and counts from boot.
	Clock func() time.Duration
	Log   *slog.Logger
}

// Mover carries out orders. Its methods may be called from any goroutine.
type Mover struct {
	opts Options
	wake chan struct{}

	mu      sync.Mutex
	entries []*entry // in the order in which they came
}

// entry is an order and what is known of it outside of the goroutine that moves.
type entry struct {
	order    Order
	report   Report
	canceled bool
}

// New returns a mover. It does nothing until Run.
func New(o Options) *Mover { return &Mover{opts: o, wake: make(chan struct{}, 1)} }

// Run carries out orders until the context ends, and then ends within one call. Orders that
// are not done by then are reported as canceled.
func (m *Mover) Run(ctx context.Context) error {
	for {
		for e := m.next(); e != nil; e = m.next() {
			r := e.report
			r.Phase, r.Outcome = Done, locality.Skipped
			m.publish(e, r)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-m.wake:
		}
	}
}

// Order asks for a pass. While one of the same key is under way it does nothing; a report
// of one that is done is replaced.
func (m *Mover) Order(o Order) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.index(o.Key); i >= 0 {
		if m.entries[i].report.Phase != Done {
			return
		}
		m.entries = slices.Delete(m.entries, i, i+1)
	}
	m.entries = append(m.entries, &entry{order: o, report: Report{Key: o.Key, Phase: Queued, Started: m.opts.Clock()}})
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Cancel ends the pass of a key within one call. What was moved stays where it is.
func (m *Mover) Cancel(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.index(key); i >= 0 {
		m.entries[i].canceled = true
	}
}

// Reports returns a report of each order, in the order in which they came. Those that are
// done stay until Forget.
func (m *Mover) Reports() []Report {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Report
	for _, e := range m.entries {
		all = append(all, e.report.clone())
	}
	return all
}

// Forget drops the report of a pass that is done.
func (m *Mover) Forget(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.index(key); i >= 0 && m.entries[i].report.Phase == Done {
		m.entries = slices.Delete(m.entries, i, i+1)
	}
}

func (m *Mover) index(key string) int {
	return slices.IndexFunc(m.entries, func(e *entry) bool { return e.order.Key == key })
}

// next returns the order whose turn it is, or nil.
func (m *Mover) next() *entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.entries {
		if e.report.Phase != Done {
			return e
		}
	}
	return nil
}

func (m *Mover) publish(e *entry, r Report) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.report = r.clone()
}

// clone returns a copy that shares nothing with r.
func (r Report) clone() Report {
	r.Moved, r.Exited, r.Warnings = slices.Clone(r.Moved), slices.Clone(r.Exited), slices.Clone(r.Warnings)
	r.Left = maps.Clone(r.Left)
	return r
}
