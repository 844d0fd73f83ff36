package schedule

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/berth-project/berth/internal/intent/kubepod"
)

// sums knows what the bound pods of each node request, in thousandths of a CPU. A binding checks the accounting rule by
// it, because the NodeInfo of its cycle is old by then. The zero value is ready for use, and safe for concurrent use.
type sums struct {
	mu    sync.Mutex
	nodes map[string]*sum
	// ahead are the counted pods that the informer has not shown bound yet: an unbound pod does not name the node.
	ahead map[types.UID]*ahead
}

// sum is what the pods of one node request. It has no pods that request nothing.
type sum struct {
	milli int64
	pods  map[types.UID]charge
}

// charge is the request of one pod, and the object that it was read from.
type charge struct {
	pod   *v1.Pod
	milli int64
}

// ahead is where a pod counts, and how many successive sweeps found no such pod.
type ahead struct {
	node   string
	sweeps uint8
}

// count counts a bound pod by its latest state; early reports that the informer may not show it bound yet.
func (s *sums) count(pod *v1.Pod, early bool) {
	milli := requestOf(pod)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(pod.Spec.NodeName, pod, milli)
	if early {
		s.expect(pod.UID, pod.Spec.NodeName)
	} else {
		delete(s.ahead, pod.UID)
	}
}

// claim counts a pod whose binding is about to be sent, unless the API server showed it bound to the node.
func (s *sums) claim(pod *v1.Pod, node string, milli int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if here := s.nodes[node]; here != nil && here.has(pod.UID) {
		return
	}
	s.put(node, pod, milli)
	s.expect(pod.UID, node)
}

// unclaim ends a claim whose binding failed, unless the API server showed the pod bound.
func (s *sums) unclaim(pod *v1.Pod, node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if here := s.nodes[node]; here != nil && here.pods[pod.UID].pod == pod {
		s.take(node, pod.UID)
		delete(s.ahead, pod.UID)
	}
}

// drop forgets a pod that ended. Its last known state may be unbound.
func (s *sums) drop(pod *v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.take(pod.Spec.NodeName, pod.UID)
	if early := s.ahead[pod.UID]; early != nil {
		s.take(early.node, pod.UID)
		delete(s.ahead, pod.UID)
	}
}

// put sets the charge of a pod. The caller holds mu.
func (s *sums) put(node string, pod *v1.Pod, milli int64) {
	if milli == 0 {
		s.take(node, pod.UID)
		return
	}
	here := s.nodes[node]
	if here == nil {
		here = &sum{pods: map[types.UID]charge{}}
		if s.nodes == nil {
			s.nodes = map[string]*sum{}
		}
		s.nodes[node] = here
	}
	here.milli += milli - here.pods[pod.UID].milli
	here.pods[pod.UID] = charge{pod, milli}
}

// take removes the charge of a pod. The caller holds mu.
func (s *sums) take(node string, uid types.UID) {
	here := s.nodes[node]
	if here == nil {
		return
	}
	here.milli -= here.pods[uid].milli
	delete(here.pods, uid)
	if len(here.pods) == 0 {
		delete(s.nodes, node)
	}
}

// expect notes that the informer has yet to show a pod. The caller holds mu.
func (s *sums) expect(uid types.UID, node string) {
	if s.ahead == nil {
		s.ahead = map[types.UID]*ahead{}
	}
	s.ahead[uid] = &ahead{node: node}
}

// on returns what the pods of a node request, except the pod own: those that are counted here, and those of the node's
// reservations and ambiguous binds. The caller holds n.mu.
func (s *sums) on(n *node, own types.UID) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	here := s.nodes[n.name]
	if here == nil {
		here = &sum{}
	}
	return here.milli - here.pods[own].milli + n.underWay(own, here)
}

// again returns the same by the present state of the informer's store. The plugin's handler may be behind it, and so
// behind the scheduler's cache. The caller holds n.mu.
func (s *sums) again(n *node, own types.UID, pods corelisters.PodLister) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	here := s.nodes[n.name]
	if here == nil {
		here = &sum{}
	}
	total := n.underWay(own, here)
	for uid, one := range here.pods {
		shown, err := pods.Pods(one.pod.Namespace).Get(one.pod.Name)
		switch there := err == nil && shown.UID == uid && !kubepod.Complete(shown); {
		case uid == own:
		case there && shown.Spec.NodeName == n.name:
			total += requestOf(shown)
		case there, s.ahead[uid] != nil:
			total += one.milli
		}
	}
	return total
}

// sweep forgets pods that the informer does not show although it should by now, as when it saw the end of a pod before
// the answer about its bind arrived.
func (s *sums) sweep(gone gone) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid, early := range s.ahead {
		one, counted := charge{}, false
		if here := s.nodes[early.node]; here != nil {
			one, counted = here.pods[uid]
		}
		switch {
		case !counted:
			delete(s.ahead, uid)
		case !gone(one.pod.Namespace, one.pod.Name, uid):
			early.sweeps = 0
		case early.sweeps >= keepAbsent:
			s.take(early.node, uid)
			delete(s.ahead, uid)
		default:
			early.sweeps++
		}
	}
}

func (s *sum) has(uid types.UID) bool {
	_, found := s.pods[uid]
	return found
}

// underWay returns what the records and ambiguous binds request whose pods are not counted in here, except the pod own.
// The caller holds mu.
func (n *node) underWay(own types.UID, here *sum) int64 {
	total := int64(0)
	for uid, r := range n.records {
		if uid != own && r.holds() && !here.has(uid) {
			total += requestOf(r.pod)
		}
	}
	for _, b := range n.ambiguous {
		if b.uid != own && !here.has(b.uid) && n.holder(b.uid) == nil && n.requestsFirst(b) {
			total += b.request.milli
		}
	}
	return total
}
