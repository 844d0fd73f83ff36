package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/berth-project/berth/internal/view"
	"github.com/berth-project/berth/internal/window"
)

const (
	// answerLimit is how long the agent has for an answer.
	answerLimit = 30 * time.Second
	// maxView bounds what is taken of one.
	maxView = 64 << 20
)

// ErrAnswer says that the agent or its node refused a request; the message has the reason. What
// the API server refuses is an error of its own.
var ErrAnswer = errors.New("refused")

// Page is the page of a node. It is safe for concurrent use.
type Page struct {
	access *access
	node   string
	log    *slog.Logger
}

// Open finds the agent of a node and asks it for its page once, so that a missing right is
// named at once. The configuration is the user's, and is not changed.
func Open(ctx context.Context, cfg *rest.Config, node string, log *slog.Logger) (*Page, error) {
	access, err := newAccess(cfg)
	if err != nil {
		return nil, err
	}
	p := &Page{access: access, node: node, log: log}
	_, err = p.ask(ctx, "/")
	return p, err
}

// View asks the agent what its node is like at this moment.
func (p *Page) View(ctx context.Context) (*view.View, error) {
	text, err := p.ask(ctx, window.ViewPath)
	if err != nil {
		return nil, err
	}
	var v view.View
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, fmt.Errorf("view of the agent: %w", err)
	}
	return &v, nil
}

// Past asks the agent what it kept of a workload in the last seconds, where step of them are one
// sample.
func (p *Page) Past(ctx context.Context, workload string, seconds, step int) ([]byte, error) {
	return p.ask(ctx, window.PastOf(workload, seconds, step))
}

// Serve answers at a listener of the user's computer until ctx ends.
func (p *Page) Serve(ctx context.Context, l net.Listener) error {
	transport := p.transport()
	defer transport.CloseIdleConnections()
	proxy := p.proxy(transport)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		clear(w.Header()) // the agent sends its own, which say more of its page
		proxy.ServeHTTP(w, r)
	})
	return window.ServeAt(ctx, l, window.Guard(nil, handler))
}

// proxy passes requests on to the agent, with nothing of the browser's but their path.
func (p *Page) proxy(transport http.RoundTripper) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, ErrorLog: slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", name, name
			r.Out.Header = http.Header{"Accept": r.In.Header["Accept"]}
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}
}

// transport sends requests to the agent, with a token.
func (p *Page) transport() *authorized {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return p.access.dial(ctx, p.node) }
	return &authorized{access: p.access, Transport: &http.Transport{DialContext: dial}}
}

// authorized adds a token to requests.
type authorized struct {
	*http.Transport

	access *access
}

// RoundTrip implements http.RoundTripper; the request is the proxy's own copy.
func (a *authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	token, err := a.access.bearer(r.Context())
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := a.Transport.RoundTrip(r.WithContext(finalOnly{r.Context()}))
	if err != nil {
		return nil, err //nolint:wrapcheck // the proxy reports it
	}
	if answer.StatusCode < http.StatusOK { // the connection is for nothing else
		_ = answer.Body.Close()
		return nil, fmt.Errorf("%w: the agent answers with status %d: allowed: 200 to 599", ErrAnswer, answer.StatusCode)
	}
	return answer, nil
}

// finalOnly is a context without its values. One of them has the proxy pass on what comes before
// an answer (status 103) with all headers, and forget those of its own.
type finalOnly struct{ context.Context }

// Value implements context.Context.
func (finalOnly) Value(any) any { return nil }

// ask asks the agent for what it has at a path.
func (p *Page) ask(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	transport := p.transport()
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+name+path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask the agent: %w", err)
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("ask the agent: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxView))
	if err != nil {
		return nil, fmt.Errorf("ask the agent: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask the agent: %w: %s: %s", ErrAnswer, answer.Status, strings.TrimSpace(string(text)))
	}
	return text, nil
}
