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
	"github.com/berth-project/berth/internal/cri"
	"github.com/berth-project/berth/internal/nri"
)

const (
	// listEvery is how often a runtime is asked that reports no events.
	listEvery = time.Second
	// withoutNRI is how long NRI may be away until the runtime is asked over CRI.
	withoutNRI = 5 * time.Second
)

// Groups finds the group of a container; *cgroup.Host does.
type Groups interface {
	RuntimeGroup(cgroupsPath string, pid int) (string, error)
}

// Options say how to reach the runtime, and who takes what it reports.
type Options struct {
	// NRISocket is the runtime's socket for plugins, v1alpha1.NoNRI for none. Handler
	// answers what comes over it; MustAnswer and Waits are those of nri.Options.
	NRISocket  string
	Handler    nri.Handler
	MustAnswer func(nri.Event) bool
	Waits      nri.Observer
	// Endpoint is the runtime's for CRI, "" for none. Listed takes what comes over it: an
	// nri.Synchronize that nothing waits for, and what of it is not understood, or why there
	// is none.
	Endpoint string
	Listed   func(e nri.Event, problems []error, err error)
	Groups   Groups
	Log      *slog.Logger
}

// Runtime is one container runtime. The zero value is one that is never asked. It is safe
// for concurrent use.
type Runtime struct {
	opts   Options
	plugin *nri.Plugin // nil without NRI
	client *cri.Client // nil where it is never asked
	// listed says that the last list over CRI was whole.
	listed atomic.Bool
}

// New returns a Runtime that nothing was asked yet. The errors are nri.ErrOptions and
// cri.ErrEndpoint.
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

// Run keeps the connections until ctx ends.
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

// NRI is the state of the connection over NRI; ok is false without one.
func (r *Runtime) NRI() (status nri.Status, ok bool) {
	if r.plugin == nil {
		return nri.Status{}, false
	}
	return r.plugin.Status(), true
}

// Missing is what is missing of the runtime, empty for nothing: it has reported
// what runs, over NRI or where that is not there over CRI.
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

// reports says whether the runtime reports events over NRI, or is about to.
func (r *Runtime) reports() bool { return r.reportsFor() > 0 }

// reportsFor is for how long the runtime need not be asked at least: a connection that ends now is
// waited for that long.
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
