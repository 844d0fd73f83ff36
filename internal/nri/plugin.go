package nri

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/nri/pkg/api"
	"golang.org/x/sync/errgroup"
)

const (
	// DefaultSocket is where containerd and CRI-O listen for plugins.
	DefaultSocket = "/var/run/nri/nri.sock"
	// DefaultLimit is how long the handler may take.
	DefaultLimit = 500 * time.Millisecond
	// DefaultIndex makes Berth one of the last plugins to be asked, so that it
	// sees what the others set.
	DefaultIndex = "90"

	// maxWaiting events may wait for the handler.
	maxWaiting = 1024
)

// Groups finds the group of a container; *cgroup.Host does.
type Groups interface {
	RuntimeGroup(cgroupsPath string, pid int) (string, error)
}

// Observer takes one measurement after the other; a prometheus.Histogram does. It is
// safe for concurrent use.
type Observer interface {
	Observe(value float64)
}

// Options say what a Plugin is made of. Handler, Groups and Log are needed.
type Options struct {
	// Socket is the runtime's; "" is DefaultSocket.
	Socket string
	// Name and Index are what the Plugin registers as: "berth" and
	// DefaultIndex when empty. Index is two digits; plugins are asked in its
	// order.
	Name, Index string
	Handler     Handler
	Groups      Groups
	Log         *slog.Logger
	// MustAnswer says of a Create, Start or Update that it must not be carried out
	// without the handler's reply: when that is late, the runtime gets an
	// error. It is called concurrently with the handler and has to return at
	// once. Nil is never.
	MustAnswer func(Event) bool
	// Changed is called when Status.State changes, one call at a time; it must
	// not wait for the Plugin. It may be nil.
	Changed func(Status)
	// Waits takes, in seconds, how long the runtime waited for each reply: from an
	// event's arrival to its reply, time spent behind other events included. It is
	// called concurrently and on the way of the reply. It may be nil.
	Waits Observer
	// Limit is how long the handler may take; 0 is DefaultLimit, or half of what
	// the runtime waits if that is less.
	Limit time.Duration
}

// Plugin is one plugin of the node's container runtime. Its methods are safe
// for concurrent use.
type Plugin struct {
	opts  Options
	calls chan *call
	limit atomic.Int64 // of the handler, in nanoseconds

	reporting sync.Mutex // held while Changed is called, taken before mu
	mu        sync.Mutex
	status    Status
}

// New returns a Plugin that is not connected yet. The error is ErrOptions.
func New(o Options) (*Plugin, error) {
	o.Socket = orDefault(o.Socket, DefaultSocket)
	o.Name = orDefault(o.Name, "berth")
	o.Index = orDefault(o.Index, DefaultIndex)
	if o.Handler == nil || o.Groups == nil || o.Log == nil || o.Limit < 0 {
		return nil, fmt.Errorf("%w: Handler, Groups and Log are needed, and a limit above 0", ErrOptions)
	}
	if err := api.CheckPluginName(o.Name); err != nil {
		return nil, fmt.Errorf("%w: name: %w", ErrOptions, err)
	}
	if err := api.CheckPluginIndex(o.Index); err != nil {
		return nil, fmt.Errorf("%w: index: %w", ErrOptions, err)
	}
	p := &Plugin{opts: o, calls: make(chan *call, maxWaiting), status: Status{Since: time.Now()}}
	p.limit.Store(int64(orDefault(o.Limit, DefaultLimit)))
	return p, nil
}

// within returns how long the handler may take.
func (p *Plugin) within() time.Duration { return time.Duration(p.limit.Load()) }

// heed takes the time that the runtime waits into account, 0 for not known.
func (p *Plugin) heed(waits time.Duration) {
	if p.opts.Limit != 0 {
		return
	}
	limit := DefaultLimit
	if waits > 0 {
		limit = min(limit, waits/2)
	}
	p.limit.Store(int64(limit))
}

func orDefault[T comparable](v, otherwise T) T {
	if v == *new(T) {
		return otherwise
	}
	return v
}

// Run connects, answers, and connects again, until ctx ends. It returns nil
// then, and never before. It may be called once.
func (p *Plugin) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.answer(ctx) })
	group.Go(func() error { return p.stayConnected(ctx) })
	return group.Wait() //nolint:wrapcheck // both return nil
}
