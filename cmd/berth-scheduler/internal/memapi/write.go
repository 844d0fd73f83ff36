package memapi

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

func (s *Server) create(w http.ResponseWriter, q *http.Request, r request) {
	o, err := body(q)
	if err != nil {
		fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	if r.sub == "binding" {
		s.bind(w, q, r, o)
		return
	}
	r.name = text(o, "metadata", "name")
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if s.late(q) {
		cut(w)
		return
	}
	if s.store.collection(r.resource).objects[r.key()] != nil {
		fail(w, http.StatusConflict, metav1.StatusReasonAlreadyExists, r.key()+" exists")
		return
	}
	answer(w, http.StatusCreated, s.insert(r, o))
}

// insert sets the fields that a server sets. The caller must hold the lock.
func (s *Server) insert(r request, o Object) Object {
	if r.namespace != "" {
		o = withMeta(o, "namespace", r.namespace)
	}
	o = withMeta(o, "creationTimestamp", time.Now().UTC().Format(time.RFC3339))
	if path.Base(r.resource) == "pods" && text(o, "status", "phase") == "" {
		o = with(o, "status", with(child(o, "status"), "phase", "Pending"))
	}
	return s.store.put(r.resource, r.key(), o)
}

// update answers PUT and PATCH, for the object and for its status. It treats a patch of the status like any other
// patch, because a patch names the fields that it changes.
func (s *Server) update(w http.ResponseWriter, q *http.Request, r request) {
	data, err := io.ReadAll(q.Body)
	if err != nil {
		fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if s.late(q) {
		cut(w)
		return
	}
	old := s.store.collection(r.resource).objects[r.key()]
	if old == nil {
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, r.resource+" "+r.key()+" not found")
		return
	}
	o, err := patched(q, r, old, data)
	if err != nil {
		fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	if uid := text(o, "metadata", "uid"); uid != text(old, "metadata", "uid") {
		fail(w, http.StatusConflict, metav1.StatusReasonConflict, "uid "+uid+" is another object's")
		return
	}
	if rv := text(o, "metadata", "resourceVersion"); rv != "" && rv != text(old, "metadata", "resourceVersion") {
		fail(w, http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified")
		return
	}
	answer(w, http.StatusOK, s.store.put(r.resource, r.key(), o))
}

// patched returns the object after a PUT or PATCH.
func patched(q *http.Request, r request, old Object, data []byte) (Object, error) {
	var o Object
	if q.Method == http.MethodPut {
		if err := json.Unmarshal(data, &o); err != nil {
			return nil, fmt.Errorf("body: %w", err)
		}
		if r.sub == "status" {
			return with(withMeta(old, "resourceVersion", text(o, "metadata", "resourceVersion")), "status", o["status"]), nil
		}
		return o, nil
	}
	switch kind := types.PatchType(q.Header.Get("Content-Type")); kind {
	case types.StrategicMergePatchType:
		before, err := json.Marshal(old)
		if err != nil {
			return nil, fmt.Errorf("stored object: %w", err)
		}
		after, err := strategicpatch.StrategicMergePatch(before, data, v1.Pod{})
		if err != nil {
			return nil, fmt.Errorf("strategic merge: %w", err)
		}
		if err := json.Unmarshal(after, &o); err != nil {
			return nil, fmt.Errorf("patched object: %w", err)
		}
		return o, nil
	case types.MergePatchType:
		if err := json.Unmarshal(data, &o); err != nil {
			return nil, fmt.Errorf("body: %w", err)
		}
		return merged(old, o), nil
	default:
		return nil, fmt.Errorf("patch type %q is not served here", kind)
	}
}

// merged applies a JSON merge patch (RFC 7386).
func merged(old, patch Object) Object {
	out := maps.Clone(old)
	if out == nil {
		out = Object{}
	}
	for k, v := range patch {
		inner, isMap := v.(map[string]any)
		switch {
		case v == nil:
			delete(out, k)
		case isMap:
			out[k] = merged(child(out, k), inner)
		default:
			out[k] = v
		}
	}
	return out
}

func (s *Server) delete(w http.ResponseWriter, q *http.Request, r request) {
	options, err := body(q)
	if err != nil {
		fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if s.late(q) {
		cut(w)
		return
	}
	old := s.store.collection(r.resource).objects[r.key()]
	if old == nil {
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, r.resource+" "+r.key()+" not found")
		return
	}
	if uid := text(options, "preconditions", "uid"); uid != "" && uid != text(old, "metadata", "uid") {
		fail(w, http.StatusConflict, metav1.StatusReasonConflict, "uid "+uid+" is another object's")
		return
	}
	if s.terminates(r, old, options) {
		answer(w, http.StatusOK, s.store.put(r.resource, r.key(), marked(old)))
		return
	}
	answer(w, http.StatusOK, s.store.remove(r.resource, r.key()))
}

// terminates reports whether a deletion only marks the object: a bound pod, unless its grace period is 0.
func (s *Server) terminates(r request, o, options Object) bool {
	if !s.grace.Load() || path.Base(r.resource) != "pods" || text(o, "spec", "nodeName") == "" {
		return false
	}
	seconds, given := options["gracePeriodSeconds"].(float64)
	return !given || seconds != 0
}

func marked(o Object) Object {
	if text(o, "metadata", "deletionTimestamp") != "" {
		return o
	}
	return withMeta(withMeta(o, "deletionTimestamp", time.Now().UTC().Format(time.RFC3339)), "deletionGracePeriodSeconds", 30)
}

// Reap removes every marked pod, as the kubelets do, and returns how many.
func (s *Server) Reap() int {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	n := 0
	for key, o := range maps.Clone(s.store.collection(pods).objects) {
		if text(o, "metadata", "deletionTimestamp") != "" {
			s.store.remove(pods, key)
			n++
		}
	}
	return n
}
