package schedule

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/kubepod"
)

// claim reports whether a pod that shares its CPUs may be bound to a node, and counts it there until the API server
// shows it or its binding fails. A pod without a request always may.
func (m *machines) claim(pod *v1.Pod, nodeName string, request int64) bool {
	n := m.nodes.find(nodeName)
	if n == nil || request <= 0 {
		return true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	var none placement.Held
	o := n.beside(pod.UID, &none, (*record).holds)
	if !m.admits(n, pod.UID, &none, request, &o) {
		return false
	}
	m.nodes.sums.claim(pod, nodeName, request)
	return true
}

// admits reports whether the accounting rule still admits a pod that holds held. o is what the pod holds beside all pods
// that are bound to the node or on their way. A node that is not known yet admits any pod, and before the first lists too
// few pods count. The caller holds n.mu.
func (m *machines) admits(n *node, uid types.UID, held *placement.Held, request int64, o *placement.Occupancy) bool {
	if n.machine == nil || n.allocatable == 0 {
		return true
	}
	if n.surplus(o, m.nodes.sums.on(n, uid)) >= request {
		return true
	}
	// The scheduler's cache may already know of the end of a pod, or of a larger node, and the handlers not yet.
	m.size(n)
	pods := m.handle.SharedInformerFactory().Core().V1().Pods().Lister()
	left := n.beside(uid, held, func(r *record) bool { return r.holds() && !r.ended(pods) })
	return n.allocatable == 0 || n.surplus(&left, m.nodes.sums.again(n, uid, pods)) >= request
}

// surplus returns what the node has left for requests by the accounting rule. The caller holds mu.
func (n *node) surplus(o *placement.Occupancy, requested int64) int64 {
	where := placement.Node{Machine: n.machine, AllocatableMilli: n.allocatable, RequestedMilli: requested}
	return where.Surplus(o)
}

// ended reports whether a record is of a bound pod of which the informer's store shows the end.
func (r *record) ended(pods corelisters.PodLister) bool {
	if !r.confirmed || r.sight == foretold {
		return false
	}
	shown, err := pods.Pods(r.pod.Namespace).Get(r.pod.Name)
	return err != nil || shown.UID != r.pod.UID || kubepod.Complete(shown)
}
