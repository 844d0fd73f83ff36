package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
)

// healthPath is where the agent says whether its loop turns, and statusPath where it
// serves its Checkpoint as it is at this moment.
const (
	healthPath = "/healthz"
	statusPath = "/api/v1/status"
)

// deadLoop is how long a pass may be overdue before /healthz fails: looks are
// at most a second apart, so ten seconds without one is not load, it is a hang.
const deadLoop = 10 * time.Second

// windows is what the outside sees of the agent.
type windows struct {
	listening  string // the bound address
	unheard    error  // why the address is not bound, in a cluster
	ready      bool
	lastStatus recent[[]byte]
	lastReady  recent[string]
	lastPass   atomic.Int64 // a time.Duration; read without the mutex
}

// serve answers /healthz, /readyz, /metrics and the status at all doors until ctx ends.
func (c *controller) serve(ctx context.Context, d doors) error {
	registry := prometheus.NewRegistry()
	if err := registry.Register(&collector{controller: c}); err != nil {
		return errors.Join(fmt.Errorf("register metrics: %w", err), d.close())
	}
	mux := http.NewServeMux()
	metrics := prometheus.GathererFunc(nowAndThen(registry.Gather))
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET "+healthPath, c.healthz)
	mux.HandleFunc("GET /readyz", c.readyz)
	mux.HandleFunc("GET "+statusPath, c.serveStatus)
	group, ctx := errgroup.WithContext(ctx)
	if d.socket != nil {
		group.Go(func() error { return serveAt(ctx, d.socket, mux) })
	}
	group.Go(func() error {
		l := c.await(ctx, d)
		if l == nil {
			return nil
		}
		return serveAt(ctx, l, mux)
	})
	return group.Wait() //nolint:wrapcheck // each names its address
}

// serveAt answers at one address until ctx ends.
func serveAt(ctx context.Context, l net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
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
// container runtime reports events: until then containers start without Berth, and
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
	case c.unheard != nil:
		return "", c.unheard
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
		return cp.MarshalJSON()
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

// Fetch asks the live agent of stateDir for its checkpoint of this moment: over its
// socket, and where that is not there at its address.
func Fetch(ctx context.Context, stateDir, address string) (Checkpoint, error) {
	text, err := askSocket(ctx, stateDir, statusPath)
	if err != nil && address != "" {
		text, err = ask(ctx, http.DefaultClient, address, statusPath)
	}
	if err != nil {
		return Checkpoint{}, err
	}
	var cp Checkpoint
	if err := json.Unmarshal(text, &cp); err != nil {
		return Checkpoint{}, fmt.Errorf("status of the agent: %w", err)
	}
	return cp, nil
}

// CheckHealth asks the live agent of stateDir, over its socket, whether its loop turns.
func CheckHealth(ctx context.Context, stateDir string) error {
	_, err := askSocket(ctx, stateDir, healthPath)
	return err
}

// askSocket asks the agent of stateDir over its socket.
func askSocket(ctx context.Context, stateDir, path string) ([]byte, error) {
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", filepath.Join(stateDir, socketFile))
		},
	}
	return ask(ctx, &http.Client{Transport: transport}, "agent", path)
}

// ask returns what is answered to a request for a path.
func ask(ctx context.Context, client *http.Client, address, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask agent at %s: %w", address, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask agent at %s: %w", address, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return nil, fmt.Errorf("ask agent at %s: %w", address, err)
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("ask agent at %s for %s: %w: %s: %s", address, path, errAnswer, response.Status, strings.TrimSpace(string(text)))
	}
	return text, nil
}

var errAnswer = errors.New("not well")
