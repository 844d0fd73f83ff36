package schedule

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// queue is the scheduling queue as the plugin sees it: the pods that wait there because
// of a refusal of the plugin, and the calls that make it try them again.
type queue struct {
	waiting

	handle fwk.Handle
	log    klog.Logger
}

// activate makes the scheduling queue try the waiting pods again that were
// refused for one of the reasons.
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

// activateOne does so for one pod.
func (q *queue) activateOne(pod *v1.Pod) {
	q.handle.Activate(q.log, map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: pod})
}

// again asks for another try of a pod that is refused by an earlier state of a node than is
// known.
func (q *queue) again(pod *v1.Pod, behind bool) {
	if behind {
		q.activateOne(pod)
	}
}
