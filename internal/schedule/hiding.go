package schedule

import (
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/kubepod"
	"github.com/berth-project/berth/internal/placement"
)

// hidesIndex is an index of the pod informer with the pods that may have more
// CPUs than they request, bound or not. It changes with the informer's store,
// and so before any event of the same change reaches anybody: whatever a
// snapshot of the scheduler shows, the index showed it no later.
const hidesIndex = "berth.dev/hides"

// hiding knows whether anything in the cluster can make the accounting rule say
// more than the sum of requests does, which every scheduler compares anyway. In
// doubt something can.
type hiding struct {
	// pods has hidesIndex.
	pods cache.Indexer
	// nodes counts those of which the plugin itself knows something of the kind.
	nodes atomic.Int64
}

// watch begins to index an informer's pods.
func (h *hiding) watch(informer cache.SharedIndexInformer) error {
	h.pods = informer.GetIndexer()
	if _, there := h.pods.GetIndexers()[hidesIndex]; there {
		return nil // by another plugin of the same informers
	}
	if err := informer.AddIndexers(cache.Indexers{hidesIndex: hidesValues}); err != nil {
		return watchError("pods", err)
	}
	return nil
}

// anything says whether the rule may say more at this moment.
func (h *hiding) anything() bool {
	return h.nodes.Load() > 0 || h.pods == nil || len(h.pods.ListIndexFuncValues(hidesIndex)) > 0
}

// hidesValues is the index function: one value for all pods that may hide CPUs.
func hidesValues(object any) ([]string, error) {
	if pod, ok := object.(*v1.Pod); ok && mayHide(pod) {
		return []string{"cpus"}, nil
	}
	return nil, nil
}

// mayHide says whether a pod can get more CPUs than it requests, wherever it is
// or will be bound, by what the pod itself says.
func mayHide(pod *v1.Pod) bool {
	if !kubepod.MayPin(pod) || kubepod.Complete(pod) || requestsAll(pod) {
		return false
	}
	pin, _ := pinningOf(pod)
	if !pin.Wanted {
		// What it was given when its keys said something else counts still.
		return pod.Annotations[v1alpha1.AnnotationPlacement] != ""
	}
	if pin.Changed || pin.Exclusive != "" {
		return true // a resize leaves a pod what it has; siblings stay empty
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

// requestsAll is the quick look at a pod: true only for the plainest ones, whose
// containers request as many whole CPUs as they may have.
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

// weigh works out anew whether the node counts among those of hiding. The caller
// holds mu.
func (n *node) weigh() {
	hides := n.hides()
	if hides == n.hiding {
		return
	}
	n.hiding = hides
	if n.hiders == nil {
		return
	}
	if hides {
		n.hiders.Add(1)
	} else {
		n.hiders.Add(-1)
	}
}

// hides says whether the accounting rule can refuse an ordinary pod on the node
// that its requests leave room for. Records count also after their end: a
// snapshot may have the pod still. The caller holds mu.
func (n *node) hides() bool {
	if n.gone || n.machine == nil {
		return false // no rule without a machine
	}
	if len(n.ambiguous) > 0 {
		return true
	}
	empty := placement.Node{Machine: n.machine, AllocatableMilli: n.allocatable}
	if n.allocatable > empty.Surplus(new(placement.Occupancy)) {
		return true // CPUs that are offered and run no containers
	}
	for _, r := range n.records {
		if r.hides() {
			return true
		}
	}
	return false
}

// hides says whether the sum of requests may not show what the pod holds.
func (r *record) hides() bool {
	return r.sight == foretold || r.held.ExtraMilli() > 0
}
