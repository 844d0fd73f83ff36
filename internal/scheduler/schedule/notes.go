package schedule

import (
	"maps"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// gone reports whether a pod no longer exists.
type gone func(namespace, name string, uid types.UID) bool

// notes stores a value for some pods, until it is forgotten or the pod is gone. The zero value is ready for use, and
// its methods are safe for concurrent use unless they say otherwise. The types that embed it hold mu over related
// changes.
type notes[N comparable] struct {
	mu   sync.Mutex
	pods map[types.UID]note[N]
}

// note is the value for one pod.
type note[N comparable] struct {
	namespace, name string
	of              N
}

// put stores the value for a pod. The caller holds mu.
func (t *notes[N]) put(pod *v1.Pod, of N) {
	if t.pods == nil {
		t.pods = map[types.UID]note[N]{}
	}
	t.pods[pod.UID] = note[N]{pod.Namespace, pod.Name, of}
}

// first stores the value for a pod, and reports whether it differs from the last one, or from the zero value.
func (t *notes[N]) first(pod *v1.Pod, of N) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pods[pod.UID].of == of {
		return false
	}
	t.put(pod, of)
	return true
}

// forget removes the value of a pod.
func (t *notes[N]) forget(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pods, uid)
}

// sweep forgets the pods that are gone; some of them were noted after their end.
func (t *notes[N]) sweep(gone gone) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.pods, func(uid types.UID, one note[N]) bool { return gone(one.namespace, one.name, uid) })
}
