package schedule

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-project/berth/internal/placement"
)

// refusal is a set of reasons for which pods wait, by what may end the wait.
type refusal uint32

// The reasons.
const (
	// refusedByTopology is a node without topology, agent or permission to pin.
	refusedByTopology refusal = 1 << iota
	// refusedByCPUs is a node on which other CPUs must become free.
	refusedByCPUs
	// refusedByPromise is a node on which less must be requested or promised.
	refusedByPromise
	// refusedByPolicy is a node whose labels rule the pod out.
	refusedByPolicy
	// refusedByRule is a pod that its namespace or the administrator rules out.
	refusedByRule
	// refusedByCap is a namespace that has all it may have.
	refusedByCap
	// refusedByRace is a pod whose CPUs somebody else got first.
	refusedByRace
)

// anyRefusal stands for a pod of which nobody knows why it waits.
const anyRefusal = ^refusal(0)

// reasonOf sorts the refusals of a node.
func reasonOf(r placement.Refusal) refusal {
	switch r.Code {
	case placement.NoTopology:
		return refusedByTopology
	case placement.NUMAPolicyDiffers, placement.BindPolicyDiffers:
		return refusedByPolicy
	case placement.Promised:
		return refusedByPromise
	default:
		return refusedByCPUs
	}
}

// waiting knows the pods that were refused in their last cycle, and why. The
// zero value is ready for use, and safe for concurrent use.
type waiting struct {
	mu   sync.Mutex
	pods map[types.UID]waiter
}

type waiter struct {
	pod *v1.Pod
	why refusal
}

// note adds a reason.
func (w *waiting) note(pod *v1.Pod, why refusal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pods == nil {
		w.pods = map[types.UID]waiter{}
	}
	w.pods[pod.UID] = waiter{pod: pod, why: w.pods[pod.UID].why | why}
}

// done forgets a pod: its next cycle begins, or it waits for nothing any more.
func (w *waiting) done(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pods, uid)
}

// why returns the reasons of a pod, anyRefusal where none are known.
func (w *waiting) why(uid types.UID) refusal {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one, found := w.pods[uid]; found {
		return one.why
	}
	return anyRefusal
}

// take returns the pods that wait for one of the reasons, by namespace and
// name. They stay until their next cycle begins.
func (w *waiting) take(why refusal) map[string]*v1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	var pods map[string]*v1.Pod
	for _, one := range w.pods {
		if one.why&why == 0 {
			continue
		}
		if pods == nil {
			pods = map[string]*v1.Pod{}
		}
		pods[one.pod.Namespace+"/"+one.pod.Name] = one.pod
	}
	return pods
}

// size returns how many pods wait.
func (w *waiting) size() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.pods)
}
