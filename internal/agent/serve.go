package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/berth-project/berth/internal/metrics"
	"github.com/berth-project/berth/internal/window"
)

// deadLoop is how long a pass may be overdue before /healthz fails: looks are
// at most a second apart, so ten seconds without one is not load, it is a hang.
const deadLoop = 10 * time.Second

// windows is what the outside sees of the agent.
type windows struct {
	listening string // the bound address
	unheard   error  // why the address is not bound, in a cluster
	ready     bool
	lastPass  atomic.Int64 // a time.Duration; read without the mutex
}

// openWindow opens the agent's socket and address, before anything on the host was
// touched. In a cluster a busy address is no error: the port is one of the host's, any
// program may have it, and an agent that ended for that would leave the pods of the node
// alone.
func (o *Options) openWindow(ctx context.Context) (*window.Window, error) {
	return window.Open(ctx, window.Options{
		StateDir: o.Config.StateDir, Address: o.Config.Listen, File: o.ConfigFile,
		AwaitAddress: *o.Config.Cluster.Enabled, Log: o.Log,
	})
}

// serve answers whoever asks the agent until ctx ends.
func (c *controller) serve(ctx context.Context, w *window.Window) error {
	registry, err := metrics.Registry(c.measured())
	if err != nil {
		return errors.Join(err, w.Close())
	}
	return w.Serve(ctx, window.Answers{
		Healthy: c.healthy, Ready: c.unready, Status: c.statusText, Metrics: registry, Listens: c.listens,
	})
}

// healthy says whether the loop still turns. It takes no lock: a loop that hangs
// holds it.
func (c *controller) healthy() error {
	if late := c.opts.Clock() - time.Duration(c.lastPass.Load()); late > deadLoop {
		return fmt.Errorf("no pass for %s", late.Round(time.Second))
	}
	return nil
}

// unready is what is missing until the agent is ready, empty for nothing; the error is
// what is wrong with the workloads or the address. The agent is ready once the workloads were
// read, every group was looked at once, and the container runtime reports events: until
// then containers start without Berth, and no other node's agent should be replaced. The
// API server may be away.
func (c *controller) unready() (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.manifestProblem != nil:
		return "", c.manifestProblem
	case c.unheard != nil:
		return "", c.unheard
	case !c.ready:
		return "first pass not finished", nil
	case c.connected == nil:
		return "", nil
	}
	return c.connected.runtime.Missing(), nil
}

// statusText is the checkpoint of this moment as JSON.
func (c *controller) statusText() ([]byte, error) {
	c.mu.Lock()
	cp := c.checkpoint()
	c.mu.Unlock()
	return cp.MarshalJSON()
}

// listens takes over where the agent listens, or why not.
func (c *controller) listens(address string, busy error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listening, c.unheard = address, busy
}

// Fetch asks the live agent of stateDir for its checkpoint of this moment: over its
// socket, and where that is not there at its address.
func Fetch(ctx context.Context, stateDir, address string) (Checkpoint, error) {
	text, err := window.Status(ctx, stateDir, address)
	if err != nil {
		return Checkpoint{}, err
	}
	var cp Checkpoint
	if err := json.Unmarshal(text, &cp); err != nil {
		return Checkpoint{}, fmt.Errorf("status of the agent: %w", err)
	}
	return cp, nil
}
