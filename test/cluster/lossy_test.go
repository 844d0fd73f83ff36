package cluster

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// One binding in so many is carried out, and its answer is lost.
	loseOneIn = 40
	// One binding in so many loses its connection, and is carried out later.
	delayOneIn = 40
	// lateBy is the delay of these bindings.
	lateBy = 400 * time.Millisecond
)

// lossy is a proxy between a scheduler and the API server. It loses and delays bindings as networks do, so that the
// scheduler cannot know whether they succeeded. All other requests pass.
type lossy struct {
	upstream   http.RoundTripper
	target     *url.URL
	proxy      *httputil.ReverseProxy
	late       sync.WaitGroup
	under      atomic.Int64 // Bindings in progress.
	lost, held atomic.Int64
}

// through makes schedulers that start from now on use a lossy connection.
func (s *stand) through(t *testing.T) *lossy {
	t.Helper()
	config := s.Config()
	config.CertData, config.KeyData = nil, nil // The scheduler has only its token.
	upstream, err := rest.TransportFor(config)
	must(t, err)
	target, err := url.Parse(config.Host)
	must(t, err)
	l := &lossy{upstream: upstream, target: target}
	l.proxy = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     upstream,
		FlushInterval: -1, // Watches.
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := httptest.NewUnstartedServer(l)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // Cut connections are intended here.
	server.StartTLS()                                   // HTTP/1.1: a connection has one request.
	s.server = server.URL
	s.serverCA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		l.late.Wait()
	})
	return l
}

// ServeHTTP aborts a connection by the panic that the HTTP server expects for that.
func (l *lossy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/binding") {
		l.proxy.ServeHTTP(w, r)
		return
	}
	l.under.Add(1)
	defer l.under.Add(-1)
	switch {
	case rand.IntN(loseOneIn) == 0:
		l.lost.Add(1)
		l.carryOut(r)
		panic(http.ErrAbortHandler)
	case rand.IntN(delayOneIn) == 0:
		l.held.Add(1)
		later := l.copyOf(r)
		l.under.Add(1)
		l.late.Go(func() {
			defer l.under.Add(-1)
			time.Sleep(lateBy)
			l.carryOut(later)
		})
		panic(http.ErrAbortHandler)
	default: // It must reach the API server even if the scheduler dies, so its context must not end.
		ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
		defer cancel()
		l.proxy.ServeHTTP(w, r.WithContext(ctx))
	}
}

// quiet waits until no binding is in progress. It first lets the proxy read the last request of a scheduler that died.
func (l *lossy) quiet(t *testing.T) {
	t.Helper()
	sleep(t.Context(), 100*time.Millisecond)
	within(t, func() string {
		if n := l.under.Load(); n > 0 {
			return fmt.Sprintf("%d bindings are under way", n)
		}
		return ""
	})
}

// copyOf copies a request, independently of its connection.
func (l *lossy) copyOf(r *http.Request) *http.Request {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	later := r.Clone(context.WithoutCancel(r.Context()))
	later.Body = io.NopCloser(bytes.NewReader(body))
	return later
}

// carryOut forwards a request and drops the answer.
func (l *lossy) carryOut(r *http.Request) {
	sent := r.Clone(context.WithoutCancel(r.Context()))
	sent.RequestURI = ""
	sent.URL.Scheme, sent.URL.Host, sent.Host = l.target.Scheme, l.target.Host, l.target.Host
	answer, err := l.upstream.RoundTrip(sent)
	if err != nil {
		return // The API server is down as well.
	}
	_, _ = io.Copy(io.Discard, answer.Body) // Nobody reads it.
	answer.Body.Close()
}
