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
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/agent/web"
	"github.com/berth-project/berth/internal/agent/window"
)

const (
	// answerLimit is the timeout of a request to the agent.
	answerLimit = 30 * time.Second
	// maxView bounds the length of an answer.
	maxView = 64 << 20
)

// ErrAnswer means that the agent or its node refused a request; the message has the reason. Refusals of the API server
// are other errors.
var ErrAnswer = errors.New("refused")

// Page is the page of a node. It is safe for concurrent use.
type Page struct {
	access *access
	node   string
	log    *slog.Logger
}

// Open finds the agent of a node and requests its page once, so that a missing right is reported at once. It does not
// change cfg.
func Open(ctx context.Context, cfg *rest.Config, node string, log *slog.Logger) (*Page, error) {
	access, err := newAccess(cfg)
	if err != nil {
		return nil, err
	}
	p := &Page{access: access, node: node, log: log}
	_, err = p.ask(ctx, "/")
	return p, err
}

// View requests the present state of the node from the agent.
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

// Past requests the history of a workload for the last seconds, with one sample per step seconds.
func (p *Page) Past(ctx context.Context, workload string, seconds, step int) ([]byte, error) {
	return p.ask(ctx, window.PastOf(workload, seconds, step))
}

// Stream requests a stream of the node's view from the agent, until ctx ends. The caller closes the stream.
func (p *Page) Stream(ctx context.Context) (io.ReadCloser, error) {
	answer, err := p.request(ctx, window.PatchesPath)
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

// Serve serves the page on a listener of the user's computer until ctx ends.
func (p *Page) Serve(ctx context.Context, l net.Listener) error {
	transport := p.transport()
	defer transport.CloseIdleConnections()
	return window.ServeAt(ctx, l, window.Guard(nil, p.handler(transport)))
}

// handler serves the page: its files are this program's, and its data comes from the agent.
func (p *Page) handler(transport http.RoundTripper) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", web.Page())
	mux.Handle("GET /api/", onlyData(p, transport))
	mux.HandleFunc("/api", http.NotFound) // else a redirection to /api/, which would leave the path of the node
	return mux
}

// proxy passes requests on to the agent: only their path and Accept header.
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
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return p.access.dial(ctx, p.node, func(string) {})
	}
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
	if failed := (*forwardError)(nil); errors.As(err, &failed) {
		return nil, failed // without the transport's words, if the connection ended before the request
	}
	if err != nil {
		return nil, err //nolint:wrapcheck // the proxy reports it
	}
	if answer.StatusCode < http.StatusOK { // the connection has no other use
		_ = answer.Body.Close()
		return nil, fmt.Errorf("%w: the agent answers with status %d: allowed: 200 to 599", ErrAnswer, answer.StatusCode)
	}
	return answer, nil
}

// finalOnly is a context without its values. One value makes the proxy pass on interim answers (status 103) with all
// headers, and drop the headers set before.
type finalOnly struct{ context.Context }

// Value implements context.Context.
func (finalOnly) Value(any) any { return nil }

// ask requests a path from the agent.
func (p *Page) ask(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	answer, err := p.request(ctx, path)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxView))
	if err != nil {
		return nil, fmt.Errorf("ask the agent: %w", err)
	}
	return text, nil
}

// request returns the agent's answer with status 200, whose body the caller closes. The answer has a connection of its
// own, which ends with it. If ctx ends first, the error names the step that did not end, and wraps the cause.
func (p *Page) request(ctx context.Context, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+name+path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask the agent: %w", err)
	}
	var step atomic.Value // a string
	step.Store("token of the account " + namespace + "/" + account)
	transport := p.transport()
	transport.DisableKeepAlives = true
	transport.DialContext = func(context.Context, string, string) (net.Conn, error) { // its own context goes on after ctx
		return p.access.dial(ctx, p.node, func(next string) { step.Store(next) })
	}
	answer, err := transport.RoundTrip(request)
	if why := context.Cause(ctx); err != nil && why != nil { // the transport does not wait for the error of its dial
		err = fmt.Errorf("%s: %w", step.Load(), why)
	}
	if err != nil {
		return nil, fmt.Errorf("ask the agent: %w", err)
	}
	if answer.StatusCode == http.StatusOK {
		return answer, nil
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxMessage))
	if err != nil {
		return nil, fmt.Errorf("ask the agent: %w", err)
	}
	return nil, fmt.Errorf("ask the agent: %w: %s: %s", ErrAnswer, answer.Status, oneLine(string(text)))
}
