package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// statusPath is where the agent serves its Checkpoint as it is at this moment.
const statusPath = "/api/v1/status"

// deadLoop is how long a pass may be overdue before /healthz fails: looks are
// at most a second apart, so ten seconds without one is not load, it is a hang.
const deadLoop = 10 * time.Second

// listen opens the agent's address. A busy or malformed address is an error that
// names it, before anything on the host was touched.
func listen(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("field listen: value %q: allowed: a free host:port: %w", address, err)
	}
	return l, nil
}

// serve answers /healthz, /readyz, /metrics and the status until ctx ends.
func (c *controller) serve(ctx context.Context, l net.Listener) error {
	registry := prometheus.NewRegistry()
	if err := registry.Register(&collector{controller: c}); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	mux := http.NewServeMux()
	metrics := prometheus.GathererFunc(nowAndThen(registry.Gather))
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", c.healthz)
	mux.HandleFunc("GET /readyz", c.readyz)
	mux.HandleFunc("GET "+statusPath, c.serveStatus)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }() // joined below
	select {
	case err := <-done:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	err := server.Close()
	<-done //nolint:errcheck // it says that the server was closed
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("close %s: %w", l.Addr(), err)
	}
	return nil
}

// healthz says whether the loop still turns. It takes no lock: a loop that hangs
// holds it.
func (c *controller) healthz(w http.ResponseWriter, _ *http.Request) {
	late := c.opts.Clock() - time.Duration(c.lastPass.Load())
	if late > deadLoop {
		http.Error(w, fmt.Sprintf("no pass for %s", late.Round(time.Second)), http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprintln(w, "ok")
}

// readyz says whether the workloads were read, every group was looked at once, and the
// container runtime tells what happens: until then containers start without Berth, and
// no other node's agent should be replaced. The API server may be away.
func (c *controller) readyz(w http.ResponseWriter, _ *http.Request) {
	missing, err := c.lastReady.get(c.unready)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case missing != "":
		http.Error(w, missing, http.StatusServiceUnavailable)
	default:
		_, _ = fmt.Fprintln(w, "ok")
	}
}

// unready is what is missing until the agent is ready, empty for nothing; the error is
// what is wrong with the workloads.
func (c *controller) unready() (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.manifestProblem != nil:
		return "", c.manifestProblem
	case !c.ready:
		return "first pass not finished", nil
	}
	return c.awaited(), nil
}

// serveStatus sends the checkpoint of this moment as JSON.
func (c *controller) serveStatus(w http.ResponseWriter, _ *http.Request) {
	status, err := c.lastStatus.get(func() ([]byte, error) {
		c.mu.Lock()
		cp := c.checkpoint()
		c.mu.Unlock()
		return json.Marshal(cp)
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(status); err != nil {
		c.opts.Log.Debug("status not sent", "error", err) // the client went away
	}
}

// Fetch asks a live agent for its checkpoint of this moment.
func Fetch(ctx context.Context, address string) (Checkpoint, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+statusPath, nil)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("ask agent at %s: %w", address, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("ask agent at %s: %w", address, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return Checkpoint{}, fmt.Errorf("ask agent at %s: %w: %s", address, errNoStatus, response.Status)
	}
	var cp Checkpoint
	if err := json.NewDecoder(response.Body).Decode(&cp); err != nil {
		return Checkpoint{}, fmt.Errorf("ask agent at %s: %w", address, err)
	}
	return cp, nil
}

var errNoStatus = errors.New("no status")
