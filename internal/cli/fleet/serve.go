package fleet

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"sync"

	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/agent/web"
	"github.com/berth-project/berth/internal/agent/window"
)

// nodesPath is the path prefix of the pages of nodes.
const nodesPath = "/nodes/"

// types maps the paths of the agent's data to their types; the page shows this data as text. No other path of the agent
// is passed on: on the origin of the page, content from a compromised node would run with the user's rights.
func types() map[string]string {
	return map[string]string{window.ViewPath: "application/json", window.PastPath: "application/json", window.StreamPath: "application/x-ndjson"}
}

// Serve serves the pages of the cluster and of its nodes on a listener of the user's computer until ctx ends.
func (c *Cluster) Serve(ctx context.Context, l net.Listener) error {
	nodes := &nodes{cluster: c, pages: map[string]http.Handler{}}
	defer nodes.close()
	mux := http.NewServeMux()
	mux.Handle("/", web.NewCluster(func() (*view.Cluster, error) { return c.View(), nil }, c.log).Handler())
	mux.Handle("GET "+nodesPath+"{node}/", nodes)
	return window.ServeAt(ctx, l, window.Guard(nil, mux))
}

// nodes serves the pages of nodes.
type nodes struct {
	cluster *Cluster

	mu         sync.Mutex
	pages      map[string]http.Handler
	transports []*authorized
}

// ServeHTTP implements http.Handler.
func (n *nodes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("node")
	page, there := n.cluster.Node(name)
	if !there {
		http.Error(w, fmt.Sprintf("the cluster has no node %q", name), http.StatusNotFound)
		return
	}
	http.StripPrefix(nodesPath+name, n.handler(page)).ServeHTTP(w, r)
}

// handler returns the handler of a page. It keeps the page's connections to the agent for the next request.
func (n *nodes) handler(page *Page) http.Handler {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pages[page.node] == nil {
		transport := page.transport()
		n.transports = append(n.transports, transport)
		n.pages[page.node] = page.handler(transport)
	}
	return n.pages[page.node]
}

// onlyData passes on requests for data, and removes the headers of the answers.
func onlyData(page *Page, transport http.RoundTripper) http.Handler {
	proxy, known := page.proxy(transport), types()
	proxy.ModifyResponse = func(answer *http.Response) error {
		kind := known[answer.Request.URL.Path]
		if answer.StatusCode != http.StatusOK {
			kind = "text/plain; charset=utf-8"
		}
		answer.Header = http.Header{"Content-Type": {kind}}
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if known[r.URL.Path] == "" {
			http.NotFound(w, r)
			return
		}
		proxy.ServeHTTP(&guarded{ResponseWriter: w, headers: w.Header().Clone()}, r)
	})
}

// guarded is one answer, with the headers from before the proxy changed them.
type guarded struct {
	http.ResponseWriter

	headers http.Header
}

// WriteHeader implements http.ResponseWriter.
func (g *guarded) WriteHeader(status int) {
	if status >= http.StatusOK {
		maps.Copy(g.Header(), g.headers)
		g.ResponseWriter.WriteHeader(status)
	}
}

// Unwrap lets the proxy flush.
func (g *guarded) Unwrap() http.ResponseWriter { return g.ResponseWriter }

// close closes the connections to agents.
func (n *nodes) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, transport := range n.transports {
		transport.CloseIdleConnections()
	}
}
