package memapi

import (
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const pods = "/api/v1/pods"

// Fault is a failure of one binding.
type Fault uint8

// Faults. Only None, LostAfter, TimeoutAfter and Late write the binding.
const (
	None          Fault = iota // nothing goes wrong
	Refused                    // 403: a definite refusal
	Conflict                   // 409: a definite refusal, as after a lost race
	Internal                   // 500: the server does not say what it did
	LostBefore                 // the connection is cut before the write
	LostAfter                  // the pod is bound, then the connection is cut
	TimeoutBefore              // 504; nothing is written
	TimeoutAfter               // 504, but the pod is bound
	Late                       // the connection is cut, and the pod is bound later
)

// lateness is the delay of a Late binding.
const lateness = 50 * time.Millisecond

// FailBinds sets the function that chooses the fault of every binding; nil removes it.
func (s *Server) FailBinds(fault func(namespace, pod string) Fault) {
	if fault == nil {
		s.fault.Store(nil)
		return
	}
	s.fault.Store(&fault)
}

func (s *Server) bind(w http.ResponseWriter, q *http.Request, r request, binding Object) {
	s.binds.Add(1)
	fault := None
	if f := s.fault.Load(); f != nil {
		fault = (*f)(r.namespace, r.name)
	}
	switch fault {
	case Refused:
		fail(w, http.StatusForbidden, metav1.StatusReasonForbidden, "binding is forbidden")
		return
	case Conflict:
		fail(w, http.StatusConflict, metav1.StatusReasonConflict, "binding is in conflict")
		return
	case Internal:
		fail(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, "internal error")
		return
	case LostBefore:
		cut(w)
		return
	case Late:
		time.AfterFunc(lateness, func() { s.assign(q, r, binding) })
		cut(w)
		return
	case TimeoutBefore:
		fail(w, http.StatusGatewayTimeout, metav1.StatusReasonTimeout, "request did not complete")
		return
	case None, LostAfter, TimeoutAfter:
	}
	code, reason, message := s.assign(q, r, binding)
	switch {
	case fault == LostAfter || s.late(q):
		cut(w)
	case fault == TimeoutAfter:
		fail(w, http.StatusGatewayTimeout, metav1.StatusReasonTimeout, "request did not complete")
	case code != 0:
		fail(w, code, reason, message)
	default:
		answer(w, http.StatusCreated, metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		})
	}
}

// assign binds a pod under the rules of a real server. A code of 0 means bound.
func (s *Server) assign(q *http.Request, r request, binding Object) (code int32, reason metav1.StatusReason, message string) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if s.late(q) {
		return http.StatusConflict, metav1.StatusReasonConflict, "too late"
	}
	pod := s.store.collection(pods).objects[r.key()]
	gates, _ := child(pod, "spec")["schedulingGates"].([]any)
	uid := text(binding, "metadata", "uid")
	switch {
	case pod == nil:
		return http.StatusNotFound, metav1.StatusReasonNotFound, "pods " + r.name + " not found"
	case uid != "" && uid != text(pod, "metadata", "uid"):
		message = "the UID in the precondition (" + uid + ") is not that of the pod"
	case text(pod, "metadata", "deletionTimestamp") != "":
		message = "pod " + r.name + " is being deleted"
	case text(pod, "spec", "nodeName") != "":
		message = "pod " + r.name + " is already assigned to node " + text(pod, "spec", "nodeName")
	case len(gates) > 0:
		message = "pod " + r.name + " has scheduling gates"
	default:
		s.store.put(pods, r.key(), bound(pod, binding))
		return 0, "", ""
	}
	return http.StatusConflict, metav1.StatusReasonConflict, message
}

// bound returns the pod after its binding, with node, annotations and condition in one step.
func bound(pod, binding Object) Object {
	pod = with(pod, "spec", with(child(pod, "spec"), "nodeName", text(binding, "target", "name")))
	notes := child(child(pod, "metadata"), "annotations")
	for k, v := range child(child(binding, "metadata"), "annotations") {
		notes = with(notes, k, v)
	}
	pod = withMeta(pod, "annotations", notes)
	status := with(child(pod, "status"), "conditions", []any{Object{"type": "PodScheduled", "status": "True"}})
	delete(status, "nominatedNodeName")
	return with(pod, "status", status)
}
