package containers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/node/cri"
	"github.com/berth-project/berth/internal/node/nri"
)

const (
	// listEvery is the interval of lists of a runtime that reports no events.
	listEvery = time.Second
	// withoutNRI is how long NRI may be away before CRI is used.
	withoutNRI = 5 * time.Second
)

// Groups finds the group of a container; *cgroup.Host implements it.
type Groups interface {
	RuntimeGroup(cgroupsPath string, pid int) (string, error)
}

// Options describe how to reach the runtime, and which functions receive its reports.
type Options struct {
	// NRISocket is the runtime's socket for plugins, v1alpha1.NoNRI for none. Handler answers its events; MustAnswer
	// and Waits are those of nri.Options.
	NRISocket  string
	Handler    nri.Handler
	MustAnswer func(nri.Event) bool
	Waits      nri.Observer
	// Endpoint is the runtime's CRI endpoint, "" for none. Listed receives each list: an nri.Synchronize that nothing
	// waits for and the problems of its parts, or the error of the list.
	Endpoint string
	Listed   func(e nri.Event, problems []error, err error)
	Groups   Groups
	Log      *slog.Logger
}

// Runtime is a container runtime. The zero value never asks it. It is safe for concurrent use.
type Runtime struct {
	opts   Options
	plugin *nri.Plugin // nil without NRI
	client *cri.Client // nil without CRI
	// listed is true if the last list over CRI succeeded.
	listed atomic.Bool
}

// New returns a Runtime, and sends no request. The errors are nri.ErrOptions and cri.ErrEndpoint.
func New(o Options) (*Runtime, error) {
	r := &Runtime{opts: o}
	var err error
	if o.NRISocket != v1alpha1.NoNRI {
		r.plugin, err = nri.New(nri.Options{
			Socket: o.NRISocket, Handler: o.Handler, Groups: o.Groups, Log: o.Log, MustAnswer: o.MustAnswer, Waits: o.Waits,
		})
		if err != nil {
			err = fmt.Errorf("NRI: %w", err)
		}
	}
	if o.Endpoint != "" {
		var bad error
		if r.client, bad = cri.Open(o.Endpoint, o.Groups); bad != nil {
			err = errors.Join(err, fmt.Errorf("CRI: %w", bad))
		}
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Run maintains the connections until ctx ends.
func (r *Runtime) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	if r.plugin != nil {
		group.Go(func() error { return r.plugin.Run(ctx) })
	}
	if r.client != nil {
		group.Go(func() error { return r.follow(ctx) })
	}
	return group.Wait() //nolint:wrapcheck // each names what it is
}

// NRI returns the state of the connection over NRI; ok is false without NRI.
func (r *Runtime) NRI() (status nri.Status, ok bool) {
	if r.plugin == nil {
		return nri.Status{}, false
	}
	return r.plugin.Status(), true
}

// Missing returns what the runtime has not done yet. It is empty once the runtime has reported its containers, over NRI
// or, without NRI, over CRI.
func (r *Runtime) Missing() string {
	switch {
	case r.plugin == nil && r.client == nil:
		return ""
	case r.client != nil && r.listed.Load() && !r.reports():
		return ""
	case r.plugin == nil:
		return "waiting for the container runtime's list at " + r.opts.Endpoint
	}
	status := r.plugin.Status()
	if status.State == nri.Connected {
		return ""
	}
	text := fmt.Sprintf("waiting for the container runtime to connect over NRI at %s: %s", r.opts.NRISocket, status.State)
	if status.Err != nil {
		text += ": " + status.Err.Error()
	}
	return text
}

// reports reports whether the runtime reports events over NRI, or is about to.
func (r *Runtime) reports() bool { return r.reportsFor() > 0 }

// reportsFor returns for how long at least no list over CRI is needed: Berth waits that long for a connection that ends
// now.
func (r *Runtime) reportsFor() time.Duration {
	if r.plugin == nil {
		return 0
	}
	status := r.plugin.Status()
	if status.State == nri.Connected {
		return withoutNRI
	}
	return max(withoutNRI-time.Since(status.Since), 0)
}
