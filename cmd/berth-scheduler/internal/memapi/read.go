package memapi

import (
	"context"
	"encoding/json"
	"net/http"
	"path"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kind returns the kind of a resource whose readers need it even in an empty list, else "".
func kind(resource string) string {
	switch path.Base(resource) {
	case "pods":
		return "Pod"
	case "nodes":
		return "Node"
	case "leases":
		return "Lease"
	case "nodetopologies":
		return "NodeTopology"
	case "priorityclasses":
		return "PriorityClass"
	}
	return ""
}

// version returns the apiVersion of a resource's objects.
func version(resource string) string {
	dir := path.Dir(resource)
	if dir == "/api/v1" {
		return "v1"
	}
	return dir[len("/apis/"):]
}

func (s *Server) read(w http.ResponseWriter, q *http.Request, r request) {
	if r.name != "" {
		s.store.mu.Lock()
		o := s.store.collection(r.resource).objects[r.key()]
		s.store.mu.Unlock()
		if o == nil {
			fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, r.resource+" "+r.key()+" not found")
			return
		}
		answer(w, http.StatusOK, o)
		return
	}
	keep, err := selector(r.namespace, q.URL.Query().Get("fieldSelector"))
	if err != nil {
		fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	if q.URL.Query().Get("watch") != "" {
		s.watch(w, q, r, keep)
		return
	}
	s.store.mu.Lock()
	items, rv := s.store.list(r.resource, keep), s.store.rv
	s.store.mu.Unlock()
	list := Object{
		"apiVersion": version(r.resource),
		"metadata":   Object{"resourceVersion": strconv.FormatInt(rv, 10)},
		"items":      items,
	}
	if k := kind(r.resource); k != "" {
		list["kind"] = k + "List"
	}
	answer(w, http.StatusOK, list)
}

// event is one line of a watch.
type event struct {
	Type   string `json:"type"`
	Object Object `json:"object"`
}

// bookmark returns the event that ends the initial events of a streamed list.
func bookmark(r request, rv int64) event {
	o := Object{"apiVersion": version(r.resource), "metadata": Object{
		"resourceVersion": strconv.FormatInt(rv, 10),
		"annotations":     Object{metav1.InitialEventsAnnotationKey: "true"},
	}}
	k := kind(r.resource)
	if k == "" {
		k = "Bookmark"
	}
	o["kind"] = k
	return event{Type: "BOOKMARK", Object: o}
}

// seen translates a change for a watch with a selector. For the watch, an object that no longer matches the selector is
// deleted.
func (c change) seen(keep func(Object) bool) (event, bool) {
	was := c.before != nil && keep(c.before)
	is := c.after != nil && keep(c.after)
	switch {
	case is && was:
		return event{"MODIFIED", c.after}, true
	case is:
		return event{"ADDED", c.after}, true
	case was && c.after != nil:
		return event{"DELETED", withMeta(c.before, "resourceVersion", text(c.after, "metadata", "resourceVersion"))}, true
	case was:
		return event{"DELETED", c.before}, true
	}
	return event{}, false
}

// watch streams the changes after a version, or the list and all later changes.
func (s *Server) watch(w http.ResponseWriter, q *http.Request, r request, keep func(Object) bool) {
	query := q.URL.Query()
	if query.Get("sendInitialEvents") == "true" && kind(r.resource) == "" {
		// A bookmark needs a kind that the client knows; the client lists instead.
		fail(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "sendInitialEvents is not served here")
		return
	}
	from, err := strconv.ParseInt(query.Get("resourceVersion"), 10, 64)
	if err != nil {
		from = 0
	}
	initial := query.Get("sendInitialEvents") == "true"
	s.store.mu.Lock()
	if !initial && from < s.store.collection(r.resource).forgotten {
		s.store.mu.Unlock()
		fail(w, http.StatusGone, metav1.StatusReasonExpired, "too old resource version: "+query.Get("resourceVersion"))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	out := &stream{w: w, json: json.NewEncoder(w)}
	if initial {
		from = s.store.rv
		for _, o := range s.store.list(r.resource, keep) {
			out.queue(event{"ADDED", o})
		}
		out.queue(bookmark(r, from))
	}
	defer context.AfterFunc(q.Context(), s.wake)()
	s.follow(q, r, from, keep, out)
}

// follow streams changes until the watch ends. The caller must hold the lock; follow releases it.
func (s *Server) follow(q *http.Request, r request, from int64, keep func(Object) bool, out *stream) {
	defer s.store.mu.Unlock()
	next := s.store.collection(r.resource).before
	for {
		if next < s.store.collection(r.resource).before {
			return // the watch is too slow; its client starts again
		}
		next = s.catchUp(r, next, from, keep, out)
		if q.Context().Err() != nil || s.away.Load() || s.absent.has(r.resource) {
			return
		}
		if out.empty() && out.begun {
			s.store.changed.Wait()
			continue
		}
		s.store.mu.Unlock()
		ok := out.flush()
		s.store.mu.Lock()
		if !ok {
			return
		}
	}
}

// catchUp queues the entries of the history from next on that are newer than version from. It returns the entry after
// them.
func (s *Server) catchUp(r request, next int, from int64, keep func(Object) bool, out *stream) int {
	if s.muted.has(r.resource) {
		return next
	}
	c := s.store.collection(r.resource)
	for _, one := range c.history[next-c.before:] {
		if one.rv <= from {
			continue
		}
		if e, ok := one.seen(keep); ok {
			out.queue(e)
		}
	}
	return c.before + len(c.history)
}

// stream collects events under the lock and writes them without it.
type stream struct {
	w       http.ResponseWriter
	json    *json.Encoder
	waiting []event
	begun   bool
}

func (s *stream) queue(e event) { s.waiting = append(s.waiting, e) }
func (s *stream) empty() bool   { return len(s.waiting) == 0 }

// flush sends the waiting events. The first flush also sends the headers.
func (s *stream) flush() bool {
	s.begun = true
	for _, e := range s.waiting {
		if s.json.Encode(e) != nil {
			return false
		}
	}
	s.waiting = s.waiting[:0]
	return http.NewResponseController(s.w).Flush() == nil
}
