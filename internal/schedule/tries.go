package schedule

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// shortPause and longPause bound for how many pods nothing is narrowed after a
	// narrowed cycle failed.
	shortPause = 16
	longPause  = 4096
)

// tries knows the pods that were shown their best nodes only, until they are bound.
// Another plugin may refuse all of these for a reason that is not known here. So a pod
// sees all nodes from its second cycle on; and the next pods do at once, for a pause
// that doubles with each failure and is forgotten with each success. The zero value is
// ready for use, and safe for concurrent use.
type tries struct {
	notes[firstTry]
	// turn is where the last walk began.
	turn int
	// pause is how many pods are left of a pause that was as long as paused.
	pause, paused int
}

// firstTry is one that saw its best nodes only.
type firstTry struct {
	// failed says that the pod came back.
	failed bool
}

// may says whether a pod may be shown some nodes only, whose cycle begins, and at which
// of so many nodes the walk begins: those that come first win among equal ones.
func (t *tries) may(uid types.UID, nodes int) (first int, may bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch one, again := t.pods[uid]; {
	case again && !one.of.failed:
		one.of.failed = true
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

// note notes that a pod is shown some nodes only.
func (t *tries) note(pod *v1.Pod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(pod, firstTry{})
}

// done forgets a pod that is bound or gone.
func (t *tries) done(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one, found := t.pods[uid]; found {
		if !one.of.failed {
			t.paused = 0
		}
		delete(t.pods, uid)
	}
}
