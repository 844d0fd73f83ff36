package schedule

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// queue is the scheduling queue as the plugin uses it: the pods that were refused in their last cycle, and the calls to
// try them again. It is safe for concurrent use.
type queue struct {
	notes[waiter]
	// calls counts the calls of take. called is the last call for each reason: a pod that is noted only now has just
	// missed it.
	calls  uint64
	called [reasons]uint64

	handle fwk.Handle
	log    klog.Logger
}

// activate makes the scheduling queue try the waiting pods again that were refused for one of the reasons.
func (q *queue) activate(reasons refusal) {
	q.try(q.take(reasons))
}

// try makes the scheduling queue try pods again.
func (q *queue) try(pods map[string]*v1.Pod) {
	if len(pods) == 0 {
		return
	}
	q.log.V(4).Info("Trying pods again", "pods", len(pods))
	q.handle.Activate(q.log, pods)
}

// activateOne makes the scheduling queue try one pod again.
func (q *queue) activateOne(pod *v1.Pod) {
	q.handle.Activate(q.log, map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: pod})
}

// again requests another try of a pod that was refused by an outdated state of a node.
func (q *queue) again(pod *v1.Pod, behind bool) {
	if behind {
		q.activateOne(pod)
	}
}
