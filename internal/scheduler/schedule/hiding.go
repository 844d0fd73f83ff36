package schedule

import (
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/kubepod"
)

// hidesIndex is an index of the pod informer: the pods that may have more CPUs than they request, by their node, "" for
// unbound pods. It changes with the informer's store, and so before any handler gets an event of the same change. So it
// is never behind a snapshot of the scheduler.
const hidesIndex = "berth.dev/hides"

// hiding knows whether the accounting rule can refuse a pod that the sum of requests, which every scheduler checks,
// admits. In doubt the answer is yes.
type hiding struct {
	// pods has hidesIndex.
	pods cache.Indexer

	mu sync.Mutex
	// nodes are the nodes that hide CPUs by what the plugin itself knows.
	nodes map[*node]struct{}
}

// set adds or removes a node.
func (h *hiding) set(n *node, hides bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.nodes == nil {
		h.nodes = map[*node]struct{}{}
	}
	if hides {
		h.nodes[n] = struct{}{}
	} else {
		delete(h.nodes, n)
	}
}

// watch adds hidesIndex to an informer of pods.
func (h *hiding) watch(informer cache.SharedIndexInformer) error {
	h.pods = informer.GetIndexer()
	if _, there := h.pods.GetIndexers()[hidesIndex]; there {
		return nil // another plugin with the same informers added it
	}
	if err := informer.AddIndexers(cache.Indexers{hidesIndex: hidesValues}); err != nil {
		return watchError("pods", err)
	}
	return nil
}

// mostHiding bounds the nodes that are checked for an ordinary pod before Filter. If there are more, Filter checks only
// nodes that it must.
const mostHiding = 16

// where returns the nodes on which the rule may refuse more at this moment. known is false if there are too many, or if
// an unbound pod hides CPUs: it may be nominated for any node.
func (h *hiding) where() (names []string, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pods == nil || len(h.nodes) > mostHiding {
		return nil, false
	}
	names = h.pods.ListIndexFuncValues(hidesIndex)
	for n := range h.nodes {
		if !slices.Contains(names, n.name) {
			names = append(names, n.name)
		}
	}
	return names, len(names) <= mostHiding && !slices.Contains(names, "")
}

// roomWhereHidden reports whether the accounting rule admits an ordinary pod on every node where it is stricter than
// requests: then Filter would refuse the pod nowhere. Nodes with nominated pods are left to Filter, which adds these
// pods.
func (p *Plugin) roomWhereHidden(cy *cycle) bool {
	names, known := p.core.hiding.where()
	if !known {
		return false
	}
	for _, name := range names {
		info, err := p.handle.SnapshotSharedLister().NodeInfos().Get(name)
		if err != nil || len(p.handle.NominatedPodsForNode(name)) > 0 {
			return false
		}
		n := p.core.nodes.find(name)
		if n == nil {
			continue // no machine, no rule
		}
		left, found := n.recallSurplus(cy.moment(info))
		if !found {
			left, _ = p.core.answers.surplusOf(n, view{info: info})
		}
		if cy.request > left {
			return false
		}
	}
	return true
}

// hidesValues is the function of hidesIndex.
func hidesValues(object any) ([]string, error) {
	if pod, ok := object.(*v1.Pod); ok && mayHide(pod) {
		return []string{pod.Spec.NodeName}, nil
	}
	return nil, nil
}

// mayHide reports whether a pod can get more CPUs than it requests, on any node, by the pod object alone.
func mayHide(pod *v1.Pod) bool {
	if !kubepod.MayPin(pod) || kubepod.Complete(pod) || requestsAll(pod) {
		return false
	}
	pin, _ := pinningOf(pod)
	if !pin.Wanted {
		// A placement from before a change of keys is still valid.
		return pod.Annotations[v1alpha1.AnnotationPlacement] != ""
	}
	if pin.Change.Changed || pin.Exclusive != "" {
		return true // a resized pod keeps its CPUs; siblings stay empty
	}
	pinned, others := make([]int64, len(pin.Pinned)), make([]int64, len(pin.Others))
	for i, c := range pin.Pinned {
		pinned[i] = 1000 * int64(c.CPUs)
	}
	placed, _ := v1alpha1.DecodePlacement(pod.Annotations[v1alpha1.AnnotationPlacement])
	for i, c := range pin.Others {
		if _, has := placed.Containers[c.Name]; has {
			others[i] = 1000 * int64(c.CPUs)
		}
	}
	return pin.BeyondMilli(pinned, others) > 0
}

// requestsAll is a fast check: true only for the plainest pods, whose containers request all the whole CPUs that they
// may have.
func requestsAll(pod *v1.Pod) bool {
	if pod.Annotations[v1alpha1.AnnotationResourceSpec] != "" || pod.Annotations[v1alpha1.AnnotationCPUPolicy] != "" ||
		pod.Generation > 1 || pod.Spec.Resources != nil || len(pod.Spec.InitContainers) > 0 {
		return false
	}
	for i := range pod.Spec.Containers {
		r := &pod.Spec.Containers[i].Resources
		limit, request := r.Limits[v1.ResourceCPU], r.Requests[v1.ResourceCPU]
		if limit.MilliValue()%1000 != 0 || request.MilliValue() < limit.MilliValue() {
			return false
		}
	}
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Resources != nil {
			return false
		}
	}
	return true
}

// weigh updates whether the node counts in hiding. The caller holds mu.
func (n *node) weigh() {
	hides := n.hides()
	if hides == n.hiding {
		return
	}
	n.hiding = hides
	if n.hiders != nil {
		n.hiders.set(n, hides)
	}
}

// hides reports whether the accounting rule can refuse an ordinary pod on the node although requests leave room.
// Records count even after their reservation has ended: a snapshot may still have the pod. The caller holds mu.
func (n *node) hides() bool {
	if n.gone || n.machine == nil {
		return false // no rule without a machine
	}
	if len(n.ambiguous) > 0 {
		return true
	}
	empty := placement.Node{Machine: n.machine, AllocatableMilli: n.allocatable}
	if n.allocatable > empty.Surplus(new(placement.Occupancy)) {
		return true // the node offers CPUs that run no containers
	}
	for _, r := range n.records {
		if r.hides() {
			return true
		}
	}
	return false
}

// hides reports whether the sum of requests may not show what the pod holds.
func (r *record) hides() bool {
	return r.sight == foretold || r.held.ExtraMilli() > 0
}
