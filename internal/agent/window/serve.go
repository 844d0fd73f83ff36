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

// Paths of the agent's answers beside its page: its present view, a stream of the view, and its history.
const (
	ViewPath   = "/api/v1/view"
	StreamPath = "/api/v1/stream"
	// Patches is the key of the query that asks for merge patches in place of whole changed entries.
	Patches     = "patches"
	PatchesPath = StreamPath + "?" + Patches
	PastPath    = "/api/v1/history"
)

// healthPath is the path that reports whether the agent's loop runs.
const healthPath = "/healthz"

// Any client on the node's network may connect. The server reads a header for at most requestFor; the header may be
// twice as long as the longest token. It also reads a body, which no handler reads, for at most requestFor. It closes a
// connection without a next request after idleFor: Prometheus asks again after a minute.
const (
	requestFor = 5 * time.Second
	maxHeader  = 2 * maxToken
	idleFor    = 90 * time.Second
)

// Answers are the agent's answers. All fields but Review and Queries are required. Several goroutines call them at
// once.
type Answers struct {
	// Healthy returns nil while the agent's loop runs. Every request calls it.
	Healthy func() error
	// Ready returns what is missing until the agent is ready, "" for nothing. The error is what is wrong.
	Ready func() (missing string, err error)
	// Views answers at all other paths, which name workloads.
	Views   http.Handler
	Metrics prometheus.Gatherer
	// Queries answers at its own address, if there is one.
	Queries http.Handler
	// Review decides who may get views and metrics at the address. If it is nil, every client may.
	Review Review
	// Listens is called with nil once the address is bound, and with the error at each try that finds it busy.
	Listens func(busy error)
}

// Serve answers at the socket and at the addresses until ctx ends, and closes them.
func (w *Window) Serve(ctx context.Context, a Answers) error {
	open, own := w.handlers(a)
	group, ctx := errgroup.WithContext(ctx)
	if w.socket != nil {
		group.Go(func() error { return ServeAt(ctx, w.socket, own) })
	}
	if w.queries != nil {
		group.Go(func() error { return ServeAt(ctx, w.queries, w.guarded(w.opts.Queries, a.Queries)) })
	}
	group.Go(func() error {
		l := w.await(ctx, a.Listens)
		if l == nil {
			return nil
		}
		return ServeAt(ctx, l, open)
	})
	return group.Wait() //nolint:wrapcheck // each names its address
}

// handlers returns the handlers for the guarded address and for the socket.
func (w *Window) handlers(a Answers) (open, own http.Handler) {
	metrics := promhttp.HandlerFor(prometheus.GathererFunc(nowAndThen(a.Metrics.Gather)), promhttp.HandlerOpts{})
	ready := readyz(nowAndThen(a.Ready))
	mux := func(g *gate) *http.ServeMux {
		mux := http.NewServeMux()
		mux.Handle("GET /metrics", g.guard(metricsRight, metrics))
		mux.HandleFunc("GET "+healthPath, healthz(a.Healthy))
		mux.HandleFunc("GET /readyz", ready)
		mux.Handle("GET /", g.guard(viewRight, a.Views))
		return mux
	}
	address := mux(newGate(a.Review, w.opts.Log))
	return w.guarded(w.opts.Address, address), mux(nil)
}

// guarded returns next behind the Guard of an address.
func (w *Window) guarded(address string, next http.Handler) http.Handler {
	return Guard(append([]string{nameOf(address)}, w.opts.Hosts...), next)
}

// ServeAt answers at one address until ctx ends.
func ServeAt(ctx context.Context, l net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: limitBody(handler), ReadHeaderTimeout: requestFor, MaxHeaderBytes: maxHeader, IdleTimeout: idleFor}
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

// limitBody returns next with a time limit for the body. A body that never comes would otherwise hold its connection,
// because the server reads it before it answers. http.Server.ReadTimeout would also end streams.
func limitBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(requestFor))
		}
		next.ServeHTTP(w, r)
	})
}

// healthz answers whether the loop still runs.
func healthz(healthy func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := healthy(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ok")
	}
}

// readyz answers whether the agent is ready.
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
