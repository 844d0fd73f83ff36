package schedule

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// shortPause and longPause bound the pods that are not narrowed after a narrowed cycle failed.
	shortPause = 16
	longPause  = 4096
)

// tries tracks the pods that were shown their best nodes only, until they are bound. Another plugin may refuse all
// these nodes for a reason that is unknown here. So a pod sees all nodes from its second cycle on. The next pods see
// all nodes at once, for a pause that doubles with each failure; a success resets its length. The zero value is ready
// for use, and safe for concurrent use.
type tries struct {
	// notes has the pods that saw their best nodes only; true means that the pod came back.
	notes[bool]
	// turn is where the last walk began.
	turn int
	// pause is how many pods remain of the last pause, and paused is its length.
	pause, paused int
}

// may reports whether a pod whose cycle begins may be shown some nodes only. first is the node, among that many, at
// which the walk begins: earlier nodes win among equals.
func (t *tries) may(uid types.UID, nodes int) (first int, may bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch one, again := t.pods[uid]; {
	case again && !one.of:
		one.of = true
		t.pods[uid] = one
		t.paused = min(max(2*t.paused, shortPause), longPause)
		t.pause = t.paused
		return 0, false
	case again:
		return 0, false
	case t.pause > 0:
		t.pause--
		return 0, false
	}
	t.turn = (t.turn + mostBest) % nodes
	return t.turn, true
}

// note records that a pod is shown some nodes only.
func (t *tries) note(pod *v1.Pod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(pod, false)
}

// done forgets a pod that is bound or gone.
func (t *tries) done(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one, found := t.pods[uid]; found {
		if !one.of {
			t.paused = 0
		}
		delete(t.pods, uid)
	}
}
