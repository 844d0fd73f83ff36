package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/berth-project/berth/internal/agent/web"
	"github.com/berth-project/berth/internal/agent/window"
)

const (
	agentsPath  = "/api/v1/namespaces/berth-system/pods"
	forwardPath = agentsPath + "/agent/portforward"
	tokenPath   = "/api/v1/namespaces/berth-system/serviceaccounts/berth-viewer/token"
)

// hostile starts an agent on a compromised node. It records the requested paths.
func hostile(t *testing.T, asked chan<- string) *httptest.Server {
	t.Helper()
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get("Authorization") + " " + r.URL.Path
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Security-Policy", "script-src *")
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("Access-Control-Allow-Origin", "*")
		if r.URL.Path == window.StreamPath {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, "<b>100 pages are open already</b>")
			return
		}
		_, _ = io.WriteString(w, `{"v":1,"version":"<script>"}`)
	}))
	t.Cleanup(agent.Close)
	return agent
}

// forward makes the server forward a port to an agent.
func (s *server) forward(t *testing.T, agent *httptest.Server) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists[agentsPath] = list("v1", "Pod", `{"metadata":{"name":"agent"},"spec":{"nodeName":"node-a"},"status":{"phase":"Running"}}`)
	s.lists[tokenPath] = `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","status":{"token":"good","expirationTimestamp":"2100-01-01T00:00:00Z"}}`
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != forwardPath || r.Method == http.MethodGet || s.refused["list "+forwardPath] != 0 {
			s.ServeHTTP(w, r)
			return
		}
		// The end of the test interrupts a session that has just begun.
		if err := pass(w, r, agent.Listener.Addr().String()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	s.lists[forwardPath] = "no WebSockets here"
}

// pass is one session of a port-forward.
func pass(w http.ResponseWriter, r *http.Request, address string) error {
	if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	streams := make(chan httpstream.Stream, 2)
	session := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		streams <- s
		return nil
	})
	if session == nil {
		return nil
	}
	defer session.Close()
	failed, data := <-streams, <-streams
	if failed.Headers().Get(v1.StreamType) != v1.StreamTypeError {
		failed, data = data, failed
	}
	_ = failed.Close()
	conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", address) //nolint:forbidigo // the session bounds it
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(conn, data)
	}()
	go func() {
		<-session.CloseChan()
		_ = conn.Close()
	}()
	_, _ = io.Copy(data, conn)
	_ = data.Close()
	<-session.CloseChan()
	<-done
	return nil
}

// TestPast checks that the agent's history of a workload comes over the port-forward, with the token, whatever the name
// of the workload.
func TestPast(t *testing.T) {
	s := serve(t)
	asked := make(chan string, 1)
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get("Authorization") + " " + r.URL.Path + " " + r.URL.Query().Get("workload") + " " + r.URL.Query().Get("seconds") + " " + r.URL.Query().Get("step")
		_, _ = io.WriteString(w, `{"v":1,"times":[1]}`)
	}))
	t.Cleanup(agent.Close)
	s.forward(t, agent)
	c, err := follow(t, s)
	if err != nil {
		t.Fatal(err)
	}
	page, there := c.Node("node-a")
	if !there {
		t.Fatal("no page of node-a")
	}
	text, err := page.Past(t.Context(), "shop/a&b c/app", 900, 15)
	if string(text) != `{"v":1,"times":[1]}` || err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if was := <-asked; was != "Bearer good /api/v1/history shop/a&b c/app 900 15" {
		t.Errorf("asked %q", was)
	}
}

// The Content-Security-Policy of a page, and of everything else, begins like this.
const (
	own  = "default-src 'none'; script-src 'self'; "
	none = "default-src 'none'; base-uri "
)

// reply is what a server on the user's computer answers to a path, and what the agent is asked for it.
type reply struct {
	path, host string
	status     int
	kind       string
	policy     string
	says       string
	asks       string
}

// TestServe checks that the pages of a cluster and of a node are this program's own, and use only data of the agent.
func TestServe(t *testing.T) {
	for name, test := range map[string]struct {
		serve   func(*Cluster, context.Context, net.Listener) error
		replies []reply
	}{
		"cluster": {(*Cluster).Serve, []reply{
			{path: "/", status: 200, kind: "text/html; charset=utf-8", policy: own, says: `src="cluster.js"`},
			{path: "/cluster.js", status: 200, kind: "text/javascript; charset=utf-8", policy: own, says: "nodes/"},
			{path: "/dom.js", status: 200, kind: "text/javascript; charset=utf-8", policy: own, says: "roam"},
			{path: "/api/v1/view", status: 200, kind: "application/json", policy: none, says: `"name":"node-a","cpus":8,"freeCPUs":6`},
			{path: "/nodes/node-a/", status: 200, kind: "text/html; charset=utf-8", policy: own, says: `src="main.js"`},
			{path: "/nodes/node-a/main.js", status: 200, kind: "text/javascript; charset=utf-8", policy: own, says: "follow"},
			{path: "/nodes/node-a/api/v1/view", status: 200, kind: "application/json", policy: none, says: `"version":"<script>"`, asks: "Bearer good /api/v1/view"},
			{path: "/nodes/node-a/api/v1/stream", status: 503, kind: "text/plain; charset=utf-8", policy: none, says: "100 pages are open already", asks: "Bearer good /api/v1/stream"},
			{path: "/nodes/node-a/api/v1/other", status: 404},
			{path: "/nodes/node-a/api/../../../evil", status: 307, kind: ""},
			{path: "/nodes/node-a/api/%2e%2e/%2e%2e/evil", status: 404},
			{path: "/nodes/node-a/api", status: 404},
			{path: "/nodes/%2e%2e/api/v1/view", status: 404, says: `no node ".."`},
			{path: "/nodes/node-b/", status: 404, says: `no node "node-b"`},
			{path: "/nodes/node-b/api/v1/view", status: 404},
			{path: "/", host: "evil.example", status: 421},
		}},
		"node": {func(c *Cluster, ctx context.Context, l net.Listener) error {
			page, _ := c.Node("node-a")
			return page.Serve(ctx, l)
		}, []reply{
			{path: "/", status: 200, kind: "text/html; charset=utf-8", policy: own, says: `src="main.js"`},
			{path: "/main.js", status: 200, kind: "text/javascript; charset=utf-8", policy: own, says: "follow"},
			{path: "/evil", status: 404},
			{path: "/api/v1/view", status: 200, kind: "application/json", policy: none, says: `"version":"<script>"`, asks: "Bearer good /api/v1/view"},
			{path: "/api/v1/stream", status: 503, kind: "text/plain; charset=utf-8", policy: none, says: "100 pages are open already", asks: "Bearer good /api/v1/stream"},
			{path: "/api/v1/other", status: 404},
			{path: "/", host: "evil.example", status: 421},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			asked := make(chan string, 8)
			s.forward(t, hostile(t, asked))
			c, err := follow(t, s)
			if err != nil {
				t.Fatal(err)
			}
			l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ctx, end := context.WithCancel(t.Context())
			served := make(chan error, 1)
			go func() { served <- test.serve(c, ctx, l) }()
			for _, want := range test.replies {
				want.check(t, l.Addr().String(), asked)
			}
			end()
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
	}
}

// check compares an answer with the expected one.
func (want reply) check(t *testing.T, address string, asked <-chan string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+want.path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = want.host
	answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	h := answer.Header
	if err != nil || answer.StatusCode != want.status || !strings.Contains(string(text), want.says) || want.kind != "" && h.Get("Content-Type") != want.kind || !strings.HasPrefix(h.Get("Content-Security-Policy"), want.policy) {
		t.Errorf("%s: %d %v\n%s", want.path, answer.StatusCode, h, text)
	}
	if len(h.Values("Content-Security-Policy")) != 1 || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Set-Cookie") != "" || h.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%s: %v", want.path, h)
	}
	got := ""
	select {
	case got = <-asked:
	default:
	}
	if got != want.asks {
		t.Errorf("%s: the agent was asked %q, want %q", want.path, got, want.asks)
	}
}

// early starts a hostile agent that sends something before its answer: a status whose headers a proxy forwards, and a
// status that takes over the connection.
func early(t *testing.T) *httptest.Server {
	t.Helper()
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == window.StreamPath {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nSet-Cookie: a=b\r\n\r\n<script>")
			_ = conn.Close()
			return
		}
		w.Header().Set("Set-Cookie", "a=b")
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(agent.Close)
	return agent
}

// TestServeOnlyAnswers checks that an agent cannot put headers before its answer, and cannot thereby remove those of
// the guard.
func TestServeOnlyAnswers(t *testing.T) {
	s := serve(t)
	s.forward(t, early(t))
	c, err := follow(t, s)
	if err != nil {
		t.Fatal(err)
	}
	page, _ := c.Node("node-a")
	transport := page.transport()
	for name, handler := range map[string]http.Handler{
		"cluster": onlyData(page, transport),
		// The guard of an answer also works if the transport lets it through.
		"other transport": onlyData(page, plain{transport}),
	} {
		front := httptest.NewServer(window.Guard(nil, handler))
		for path, status := range map[string]int{window.ViewPath: http.StatusOK, window.StreamPath: http.StatusBadGateway} {
			if name == "other transport" && path == window.StreamPath {
				continue
			}
			before := 0
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
				before++
				return nil
			}})
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, front.URL+path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			h := answer.Header
			if answer.StatusCode != status || before > 0 {
				t.Errorf("%s%s: status %d after %d others, want %d", name, path, answer.StatusCode, before, status)
			}
			if len(h.Values("Content-Security-Policy")) != 1 || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("X-Frame-Options") != "DENY" || h.Get("Set-Cookie") != "" {
				t.Errorf("%s%s: %v", name, path, h)
			}
		}
		front.Close()
	}
	transport.CloseIdleConnections()
}

// plain is a transport to an agent without the checks of Berth's transport.
type plain struct{ way *authorized }

// RoundTrip implements http.RoundTripper.
func (p plain) RoundTrip(r *http.Request) (*http.Response, error) {
	token, err := p.way.access.bearer(r.Context())
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	return p.way.Transport.RoundTrip(r)
}

// TestServeLacksRights checks that the answer to the page names the right that a user lacks on the way to an agent.
func TestServeLacksRights(t *testing.T) {
	for _, path := range []string{agentsPath, tokenPath} {
		s := serve(t)
		s.forward(t, hostile(t, make(chan string, 1)))
		s.refuse("list "+path, http.StatusForbidden)
		c, err := follow(t, s)
		if err != nil {
			t.Fatal(err)
		}
		page, _ := c.Node("node-a")
		answer := httptest.NewRecorder()
		onlyData(page, page.transport()).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, window.ViewPath, http.NoBody))
		if resource := path[strings.LastIndex(path, "/")+1:]; answer.Code != http.StatusBadGateway || !strings.Contains(answer.Body.String(), `resource "`+resource+`"`) {
			t.Errorf("%s: %d %s", path, answer.Code, answer.Body)
		}
	}
}

// TestStreamOfNode checks that the agent's stream comes over the port-forward, with the token, until its context ends,
// and that a refused stream says why.
func TestStreamOfNode(t *testing.T) {
	s := serve(t)
	asked, gone := make(chan string, 1), make(chan struct{})
	var full atomic.Bool
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if full.Load() {
			http.Error(w, "100 pages are open already", http.StatusServiceUnavailable)
			return
		}
		defer close(gone)
		asked <- r.Header.Get("Authorization") + " " + r.URL.Path
		_, _ = io.WriteString(w, `{"v":1,"version":"2"}`+"\n"+`{"set":{"version":"3"}}`+"\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(agent.Close)
	s.forward(t, agent)
	c, err := follow(t, s)
	if err != nil {
		t.Fatal(err)
	}
	page, _ := c.Node("node-a")
	f := web.NewFollower(page.Stream)
	ctx, end := context.WithCancel(t.Context())
	for _, want := range []string{"2", "3"} {
		v, err := f.Next(ctx)
		if err != nil || v.Version != want {
			end()
			t.Fatalf("%+v: %v, want version %s", v, err, want)
		}
	}
	if was := <-asked; was != "Bearer good /api/v1/stream" {
		t.Errorf("asked %q", was)
	}
	end()
	if v, err := f.Next(ctx); v != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %+v: %v", v, err)
	}
	<-gone // the agent has a viewer less
	full.Store(true)
	if _, err := web.NewFollower(page.Stream).Next(t.Context()); !errors.Is(err, ErrAnswer) || !strings.Contains(err.Error(), "100 pages are open already") {
		t.Errorf("a refused stream: %v", err)
	}
}

// errTired is the cause of a context's end.
var errTired = errors.New("tired")

// TestStreamNamesStep checks that a stream that does not open in time names the step without an answer and the cause,
// and that the request of this step ends too.
func TestStreamNamesStep(t *testing.T) {
	for path, want := range map[string]string{
		tokenPath:         "ask the agent: token of the account berth-system/berth-viewer: tired",
		agentsPath:        "ask the agent: find the agent: tired",
		forwardPath:       "ask the agent: port-forward to port 9316 of pod berth-system/agent: tired",
		window.StreamPath: "ask the agent: answer of the agent: tired",
	} {
		t.Run(path, func(t *testing.T) {
			asked, gone := make(chan struct{}), make(chan struct{})
			hang := func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path != path {
						next.ServeHTTP(w, r)
						return
					}
					_, _ = io.Copy(io.Discard, r.Body) // after it, the server notices a client that leaves
					close(asked)
					<-r.Context().Done()
					close(gone)
				})
			}
			s := serve(t)
			agent := httptest.NewServer(hang(http.NotFoundHandler()))
			t.Cleanup(agent.Close)
			s.forward(t, agent)
			s.Config.Handler = hang(s.Config.Handler)
			c, err := follow(t, s)
			if err != nil {
				t.Fatal(err)
			}
			page, _ := c.Node("node-a")
			ctx, end := context.WithCancelCause(t.Context())
			answer := make(chan error, 1)
			go func() {
				_, err := page.Stream(ctx)
				answer <- err
			}()
			<-asked
			end(errTired)
			if err := <-answer; !errors.Is(err, errTired) || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
			<-gone
		})
	}
}

// TestViewOfNode checks that top requests one view from the agent.
func TestViewOfNode(t *testing.T) {
	s := serve(t)
	s.forward(t, hostile(t, make(chan string, 1)))
	c, err := follow(t, s)
	if err != nil {
		t.Fatal(err)
	}
	page, _ := c.Node("node-a")
	if v, err := page.View(t.Context()); err != nil || v.Version != "<script>" {
		t.Errorf("%+v, %v", v, err)
	}
}
