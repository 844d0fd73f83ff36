package mover

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/pages"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Options configure a mover.
type Options struct {
	Root *hostfs.Root
	Host *cgroup.Host
	// Clock is monotonic and counts from boot.
	Clock func() time.Duration
	Log   *slog.Logger
	// Kernel and Groups are those of Root and Host, unless they are set.
	Kernel pages.Kernel
	Groups Groups
}

// Mover carries out orders. Its methods may be called from any goroutine.
type Mover struct {
	opts  Options
	calls pages.Mover
	wake  chan struct{}

	mu      sync.Mutex
	entries []*entry // in the order of arrival
}

// entry is an order and its state outside of the moving goroutine.
type entry struct {
	order    Order
	report   Report
	stop     chan struct{} // closed by Cancel
	canceled bool
	pass     *pass // only for the moving goroutine
}

// New returns a mover. It does nothing until Run.
func New(o Options) *Mover {
	if o.Kernel == nil {
		o.Kernel = pages.Live(o.Root)
	}
	if o.Groups == nil {
		o.Groups = OfHost(o.Host)
	}
	return &Mover{opts: o, wake: make(chan struct{}, 1)}
}

// Run carries out orders until the context ends. It then returns within one call, or within half a minute (usually five
// seconds) if a process does not answer. It reports unfinished orders as canceled.
func (m *Mover) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		timer := time.NewTimer(m.round(ctx))
		select {
		case <-ctx.Done():
		case <-m.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
	m.round(ctx) // each pass sees that it is canceled
	return nil
}

// round gives each unfinished order one turn, except for paused orders, and returns the time until the next round.
func (m *Mover) round(ctx context.Context) time.Duration {
	next := time.Hour
	for _, e := range m.due() {
		if e.pass == nil {
			e.pass = newPass(m, e)
		}
		if wait := e.pass.due - m.opts.Clock(); wait > 0 && !e.pass.canceled(ctx) {
			next = min(next, wait)
			continue
		}
		e.pass.turn(ctx)
		next = 0
	}
	return next
}

// Order asks for a pass. It does nothing while a pass of the same key is under way, and replaces the report of a
// finished pass.
func (m *Mover) Order(o Order) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.index(o.Key); i >= 0 {
		if m.entries[i].report.Phase != Done {
			return
		}
		m.entries = slices.Delete(m.entries, i, i+1)
	}
	m.entries = append(m.entries, &entry{
		order: o, report: Report{Key: o.Key, Phase: Queued, Started: m.opts.Clock()}, stop: make(chan struct{}),
	})
	m.look()
}

// look wakes Run, which then checks the orders again.
func (m *Mover) look() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Cancel ends the pass of a key within one call. Moved pages stay where they are.
func (m *Mover) Cancel(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.index(key); i >= 0 && !m.entries[i].canceled {
		m.entries[i].canceled = true
		close(m.entries[i].stop)
		m.look()
	}
}

// Reports returns a report of each order, in the order of arrival. A finished order stays until Forget.
func (m *Mover) Reports() []Report {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Report
	for _, e := range m.entries {
		all = append(all, e.report.clone())
	}
	return all
}

// Forget drops the report of a finished pass.
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

// due returns the unfinished orders.
func (m *Mover) due() []*entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	var due []*entry
	for _, e := range m.entries {
		if e.report.Phase != Done {
			due = append(due, e)
		}
	}
	return due
}

func (m *Mover) publish(e *entry, r Report) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.report = r.clone()
}

// memory returns the present memory of a node.
func (m *Mover) memory(node int, zones map[int]pages.Zones) (locality.NodeMemory, error) {
	now, err := pages.ReadNode(m.opts.Kernel, node, zones[node])
	return locality.NodeMemory(now), err
}

// mayUse returns ErrOwnMems if this program may not use memory of a target: the kernel allocates the memory in the name
// of the caller.
func (m *Mover) mayUse(targets cpuset.Set) error {
	mems, err := pages.OwnMems(m.opts.Kernel)
	if lacks := targets.Difference(mems); err == nil && !lacks.IsEmpty() {
		err = fmt.Errorf("%w: it has %s, and not %s", ErrOwnMems, mems, lacks)
	}
	return err
}
