package memapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Server is the API in memory behind a local HTTP port. Its methods are safe for concurrent use.
type Server struct {
	store  *store
	http   *httptest.Server
	away   atomic.Bool
	absent resources
	held   resources // requests for these resources wait
	muted  resources // watches of these resources report nothing
	fault  atomic.Pointer[func(namespace, pod string) Fault]
	grace  atomic.Bool
	binds  atomic.Int64
	fenced sync.Map // user agents whose later writes have no effect

	decoding sync.Mutex
	decoded  map[string]*v1.Pod // by resource version, the result of the last call of Pods
}

// Start starts a server; Close ends it.
func Start() *Server {
	s := &Server{store: newStore()}
	s.http = httptest.NewServer(s)
	return s
}

// Close ends the server and all its watches.
func (s *Server) Close() {
	s.Away(true)
	s.http.CloseClientConnections()
	s.http.Close()
}

// Config returns a client configuration for the server: JSON, without a rate limit.
func (s *Server) Config() *rest.Config {
	return &rest.Config{
		Host: s.http.URL, QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"},
	}
}

// Away makes the server unreachable until Away(false): it cuts all connections. Stored objects remain.
func (s *Server) Away(away bool) {
	s.away.Store(away)
	s.wake()
}

// Absent makes a resource, as in "/apis/berth.dev/v1alpha1/nodetopologies", unknown to the server (404), or known
// again.
func (s *Server) Absent(resource string, absent bool) {
	s.absent.set(resource, absent)
	s.wake()
}

// Hold makes new requests for a resource wait until Hold(false).
func (s *Server) Hold(resource string, hold bool) {
	s.held.set(resource, hold)
	s.wake()
}

// Mute makes watches of a resource fall behind until Mute(false).
func (s *Server) Mute(resource string, mute bool) {
	s.muted.set(resource, mute)
	s.wake()
}

// wake wakes all waiters, which check their condition again.
func (s *Server) wake() {
	s.store.mu.Lock()
	s.store.changed.Broadcast()
	s.store.mu.Unlock()
}

// admit waits while a resource is held.
func (s *Server) admit(q *http.Request, resource string) {
	if !s.held.has(resource) {
		return
	}
	defer context.AfterFunc(q.Context(), s.wake)()
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	for s.held.has(resource) && !s.away.Load() && q.Context().Err() == nil {
		s.store.changed.Wait()
	}
}

// resources is a set of resources. The zero value is empty.
type resources struct{ all sync.Map }

func (r *resources) set(resource string, in bool) { r.all.Store(resource, in) }

func (r *resources) has(resource string) bool {
	in, _ := r.all.Load(resource)
	return in == true
}

// KeepTerminating makes the deletion of a bound pod work as with a kubelet: the server only marks the pod, until Reap.
func (s *Server) KeepTerminating(keep bool) { s.grace.Store(keep) }

// Fence permanently stops the client with this user agent: after Fence returns, none of its requests changes anything.
// It simulates a dead scheduler, whose requests have ended before the Lease lets the next leader start.
func (s *Server) Fence(userAgent string) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.fenced.Store(userAgent, true)
}

// late reports whether a request comes from a fenced client.
func (s *Server) late(q *http.Request) bool {
	_, fenced := s.fenced.Load(q.UserAgent())
	return fenced
}

// Binds returns how many bindings clients have requested.
func (s *Server) Binds() int64 { return s.binds.Load() }

// request is a parsed path: the resource without its namespace, and the other parts.
type request struct {
	resource, namespace, name, sub string
}

func (r request) key() string { return r.namespace + "/" + r.name }

// parse splits "/apis/g/v/namespaces/ns/pods/name/status".
func parse(path string) (request, bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	root := 2
	if parts[0] == "apis" {
		root = 3
	}
	if len(parts) <= root {
		return request{}, false
	}
	prefix, parts := "/"+strings.Join(parts[:root], "/")+"/", parts[root:]
	var r request
	if parts[0] == "namespaces" && len(parts) > 2 {
		r.namespace, parts = parts[1], parts[2:]
	}
	r.resource = prefix + parts[0]
	if len(parts) > 1 {
		r.name = parts[1]
	}
	if len(parts) > 2 {
		r.sub = parts[2]
	}
	return r, true
}

// ServeHTTP answers one request of the API.
func (s *Server) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if s.away.Load() {
		cut(w)
		return
	}
	r, ok := parse(q.URL.Path)
	s.admit(q, r.resource)
	if !ok || s.absent.has(r.resource) {
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
		return
	}
	switch q.Method {
	case http.MethodGet:
		s.read(w, q, r)
	case http.MethodPost:
		s.create(w, q, r)
	case http.MethodPut, http.MethodPatch:
		s.update(w, q, r)
	case http.MethodDelete:
		s.delete(w, q, r)
	default:
		fail(w, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, q.Method)
	}
}

// cut ends the connection without an answer.
func cut(w http.ResponseWriter) {
	h, ok := w.(http.Hijacker)
	if !ok {
		return
	}
	if c, _, err := h.Hijack(); err == nil {
		_ = c.Close()
	}
}

func fail(w http.ResponseWriter, code int32, reason metav1.StatusReason, message string) {
	answer(w, int(code), metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: code, Reason: reason, Message: message,
	})
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

// body decodes a request's object.
func body(q *http.Request) (Object, error) {
	var o Object
	err := json.NewDecoder(q.Body).Decode(&o)
	switch {
	case errors.Is(err, io.EOF):
		return Object{}, nil
	case err != nil:
		return nil, fmt.Errorf("body: %w", err)
	}
	return o, nil
}
