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
	// DefaultIndex makes Berth one of the last plugins to be asked, so that it sees what other plugins set.
	DefaultIndex = "90"

	// maxWaiting is how many events may wait for the handler.
	maxWaiting = 1024
)

// Groups finds the group of a container; *cgroup.Host implements it.
type Groups interface {
	RuntimeGroup(cgroupsPath string, pid int) (string, error)
}

// Observer receives measurements; a prometheus.Histogram implements it. It is safe for concurrent use.
type Observer interface {
	Observe(value float64)
}

// Options configure a Plugin. Handler, Groups and Log are required.
type Options struct {
	// Socket is the runtime's socket; "" is DefaultSocket.
	Socket string
	// Name and Index are the names for the registration: "berth" and DefaultIndex if empty. Index is two digits; the
	// runtime asks plugins in its order.
	Name, Index string
	Handler     Handler
	Groups      Groups
	Log         *slog.Logger
	// MustAnswer reports whether a Create, Start or Update must not be carried out without the handler's reply: if the
	// reply is late, the runtime gets an error. It is called concurrently with the handler and must return at once. Nil
	// means never.
	MustAnswer func(Event) bool
	// Changed is called when Status.State changes, one call at a time; it must not wait for the Plugin. It may be nil.
	Changed func(Status)
	// Waits receives how many seconds the runtime waited for each reply: from an event's arrival to its reply,
	// including the time behind other events. It is called concurrently, before the reply is sent. It may be nil.
	Waits Observer
	// Limit is how long the handler may take; 0 is DefaultLimit, or half of the runtime's timeout if that is less.
	Limit time.Duration
}

// Plugin is a plugin of the node's container runtime. Its methods are safe for concurrent use.
type Plugin struct {
	opts  Options
	calls chan *call
	limit atomic.Int64 // of the handler, in nanoseconds

	reporting sync.Mutex // held while Changed is called, locked before mu
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

// heed sets the limit from the runtime's timeout, 0 for unknown.
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

// Run connects, answers, and connects again, until ctx ends. It returns only then, and returns nil. It may be called
// once.
func (p *Plugin) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.answer(ctx) })
	group.Go(func() error { return p.stayConnected(ctx) })
	return group.Wait() //nolint:wrapcheck // both return nil
}
