package schedule

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-project/berth/internal/capability/place/placement"
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
	// refusedByCap is a namespace that has its maximum of CPUs.
	refusedByCap
	// refusedByRace is a pod whose CPUs another pod got first.
	refusedByRace
	// refusedBySize is a node that is too small for the pod, or built otherwise, even if empty.
	refusedBySize
)

// reasons is the number of reasons.
const reasons = 8

// anyRefusal stands for an unknown reason.
const anyRefusal = ^refusal(0)

// reasonOf returns the reason for a refusal of a node.
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

// waiter is a pod that was refused in its last cycle.
type waiter struct {
	pod *v1.Pod
	why refusal
	// called counts the checks since the pod was called, 0 if it was not; after again checks it is called once more.
	called, again int
}

const (
	// callAgain is after how many checks a pod whose cycle did not begin is called again: longer than the queue holds
	// back a failed pod. The queue may have lost the first call, since it does not try a pod while victims are being
	// evicted for it. If these have ended already, no event shows that.
	callAgain = 12
	// seldom bounds the interval, which doubles with each call. Another plugin may also prevent the cycle: it comes
	// first and refuses the pod for its own reason, for example a missing volume.
	seldom = 300
)

// note adds a reason. It reports whether the pods with that reason were called after the moment since, from done: the
// answer that the pod got may be older.
func (q *queue) note(pod *v1.Pod, why refusal, since uint64) (missed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	one := q.pods[pod.UID].of
	one.pod, one.why = pod, one.why|why
	q.put(pod, one)
	for i := range q.called {
		missed = missed || why&(1<<i) != 0 && q.called[i] > since
	}
	return missed
}

// done forgets a pod: its next cycle begins, or it waits for nothing any more. It returns the moment for note.
func (q *queue) done(uid types.UID) uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.pods, uid)
	return q.calls
}

// why returns the reasons of a pod, anyRefusal if none are known.
func (q *queue) why(uid types.UID) refusal {
	q.mu.Lock()
	defer q.mu.Unlock()
	if one, found := q.pods[uid]; found {
		return one.of.why
	}
	return anyRefusal
}

// take returns the pods that wait for one of the reasons, by namespace and name, and records that they were called.
// The pods stay in the queue until their next cycle begins.
func (q *queue) take(why refusal) map[string]*v1.Pod {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.calls++
	for i := range q.called {
		if why&(1<<i) != 0 {
			q.called[i] = q.calls
		}
	}
	var pods map[string]*v1.Pod
	for _, one := range q.pods {
		if one.of.why&why != 0 {
			pods = q.call(pods, one.of, callAgain)
		}
	}
	return pods
}

// call records that a pod is called, and when to call it again, and adds it to pods. The caller holds mu.
func (q *queue) call(pods map[string]*v1.Pod, one waiter, again int) map[string]*v1.Pod {
	one.called, one.again = 1, again
	q.put(one.pod, one)
	if pods == nil {
		pods = map[string]*v1.Pod{}
	}
	pods[one.pod.Namespace+"/"+one.pod.Name] = one.pod
	return pods
}

// hinted records that the queue was made to try a pod again.
func (q *queue) hinted(uid types.UID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if one, found := q.pods[uid]; found && one.of.called == 0 {
		one.of.called, one.of.again = 1, callAgain
		q.pods[uid] = one
	}
}

// look returns the pods to call again. It is called once every lookEvery.
func (q *queue) look() map[string]*v1.Pod {
	q.mu.Lock()
	defer q.mu.Unlock()
	var pods map[string]*v1.Pod
	for _, noted := range q.pods {
		switch one := noted.of; {
		case one.called == 0:
		case one.called < one.again:
			one.called++
			q.put(one.pod, one)
		default:
			pods = q.call(pods, one, min(2*one.again, seldom))
		}
	}
	return pods
}

// size returns how many pods wait.
func (q *queue) size() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.pods)
}
