package window

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
)

// healthPath is where the agent says whether its loop turns, and statusPath where it
// serves its status as it is at this moment.
const (
	healthPath = "/healthz"
	statusPath = "/api/v1/status"
)

// Answers are what the agent says of itself. All are needed, and are called by several
// goroutines at once.
type Answers struct {
	// Healthy is nil while the agent's loop turns. It is called at every request.
	Healthy func() error
	// Ready is what is missing until the agent is ready, "" for nothing; the error is what
	// is wrong.
	Ready func() (missing string, err error)
	// Status is a JSON document.
	Status  func() ([]byte, error)
	Metrics prometheus.Gatherer
	// Listens is called with the address once it is bound, and with the error whenever it
	// is busy.
	Listens func(address string, busy error)
}

// Serve answers at the socket and at the address until ctx ends, and closes both.
func (w *Window) Serve(ctx context.Context, a Answers) error {
	handler := w.handler(a)
	group, ctx := errgroup.WithContext(ctx)
	if w.socket != nil {
		group.Go(func() error { return serveAt(ctx, w.socket, handler) })
	}
	group.Go(func() error {
		l := w.await(ctx, a.Listens)
		if l == nil {
			return nil
		}
		return serveAt(ctx, l, handler)
	})
	return group.Wait() //nolint:wrapcheck // each names its address
}

// handler answers at all paths.
func (w *Window) handler(a Answers) http.Handler {
	mux := http.NewServeMux()
	metrics := prometheus.GathererFunc(nowAndThen(a.Metrics.Gather))
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET "+healthPath, healthz(a.Healthy))
	mux.HandleFunc("GET /readyz", readyz(nowAndThen(a.Ready)))
	mux.HandleFunc("GET "+statusPath, w.status(nowAndThen(a.Status)))
	return mux
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

// healthz says whether the loop still turns.
func healthz(healthy func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := healthy(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ok")
	}
}

// readyz says whether the agent is ready.
func readyz(ready func() (missing string, err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		missing, err := ready()
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		case missing != "":
			http.Error(w, missing, http.StatusServiceUnavailable)
		default:
			_, _ = fmt.Fprintln(w, "ok")
		}
	}
}

// status sends the status of this moment.
func (w *Window) status(now func() ([]byte, error)) http.HandlerFunc {
	return func(out http.ResponseWriter, _ *http.Request) {
		status, err := now()
		if err != nil {
			http.Error(out, err.Error(), http.StatusInternalServerError)
			return
		}
		out.Header().Set("Content-Type", "application/json")
		if _, err := out.Write(status); err != nil {
			w.opts.Log.Debug("status not sent", "error", err) // the client went away
		}
	}
}
