package agent

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/berth-project/berth/internal/agent/history"
	"github.com/berth-project/berth/internal/agent/metrics"
	"github.com/berth-project/berth/internal/agent/query"
	"github.com/berth-project/berth/internal/agent/web"
	"github.com/berth-project/berth/internal/agent/window"
)

// deadLoop is how long a pass may be overdue before /healthz fails: checks are at most a second apart, so ten seconds
// without a check mean a hang, not load.
const deadLoop = 10 * time.Second

// windows is the state that the agent shows to the outside.
type windows struct {
	unheard  error // why the address is not bound, in a cluster
	ready    bool
	lastPass atomic.Int64 // a time.Duration; read without the mutex
	// past has the last minutes of workloads; recorder writes them there from the loop.
	past     *history.History
	recorder *history.Recorder
}

// openWindow opens the agent's socket and address, before anything on the host is changed. In a cluster a busy address
// is no error: any program of the host may have the port, and an agent that ended because of that would leave the pods
// of the node without Berth.
func (o *Options) openWindow(ctx context.Context) (*window.Window, error) {
	return window.Open(ctx, window.Options{
		StateDir: o.Config.StateDir, Address: o.Config.Listen, File: o.ConfigFile, Hosts: o.Config.Web.Hosts,
		CertFile: o.Config.Web.TLS.CertFile, KeyFile: o.Config.Web.TLS.KeyFile, Queries: o.Config.History.Listen,
		AwaitAddress: *o.Config.Cluster.Enabled, Log: o.Log,
	})
}

// serve answers requests to the agent until ctx ends.
func (c *controller) serve(ctx context.Context, w *window.Window) error {
	registry, err := metrics.Registry(c.measured())
	if err != nil {
		return errors.Join(err, w.Close())
	}
	return w.Serve(ctx, window.Answers{
		Healthy: c.healthy, Ready: c.unready, Metrics: registry, Listens: c.listens,
		Views: web.NewNode((&viewer{agent: c}).look, c.opts.Log).With(c.windows.past).Handler(), Review: c.cluster.connected.review(),
		Queries: query.New(c.windows.past, c.opts.Log).Handler(),
	})
}

// review returns a function that checks who may read the agent's data. It is nil without Kubernetes: the agent then
// listens on a loopback address, and serves all programs of its host.
func (s *connections) review() window.Review {
	if s == nil {
		return nil
	}
	return func(ctx context.Context, token, path string) (window.Verdict, error) {
		r, err := s.client.Review(ctx, token, path)
		return window.Verdict(r), err
	}
}

// healthy returns an error if the loop hangs. It does not lock, because a hanging loop holds the lock.
func (c *controller) healthy() error {
	if late := c.opts.Clock() - time.Duration(c.windows.lastPass.Load()); late > deadLoop {
		return fmt.Errorf("no pass for %s", late.Round(time.Second))
	}
	return nil
}

// unready returns what is missing until the agent is ready, empty for nothing. The error describes a problem of the
// workloads or the address. The agent is ready once the workloads were read, it looked at every group once, and the
// container runtime reports events. Until then containers start without Berth, and no other node's agent should be
// replaced. The API server may be away.
func (c *controller) unready() (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.documents.manifestProblem != nil:
		return "", c.documents.manifestProblem
	case c.windows.unheard != nil:
		return "", c.windows.unheard
	case !c.windows.ready:
		return "first pass not finished", nil
	case c.cluster.connected == nil:
		return "", nil
	}
	return c.cluster.connected.runtime.Missing(), nil
}

// listens records why the agent does not listen at its address, nil once it does.
func (c *controller) listens(busy error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.windows.unheard = busy
}
