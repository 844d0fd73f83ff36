package schedule

import (
	"slices"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/kubepod"
	"github.com/berth-project/berth/internal/placement"
)

// hidesIndex is an index of the pod informer with the pods that may have more
// CPUs than they request, by the node that they are bound to, "" for none. It
// changes with the informer's store, and so before any event of the same change
// reaches a handler: whatever a snapshot of the scheduler shows, the index showed
// it no later.
const hidesIndex = "berth.dev/hides"

// hiding knows whether anything in the cluster can make the accounting rule say
// more than the sum of requests does, which every scheduler compares anyway. In
// doubt something can.
type hiding struct {
	// pods has hidesIndex.
	pods cache.Indexer
	// nodes are those of which the plugin itself knows something of the kind.
	nodes hiders
}

// hiders is a set of nodes. It is safe for concurrent use.
type hiders struct {
	count atomic.Int64
	mu    sync.Mutex
	all   map[*node]struct{}
}

// set adds a node or takes it out.
func (h *hiders) set(n *node, hides bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[*node]struct{}{}
	}
	if hides {
		h.all[n] = struct{}{}
	} else {
		delete(h.all, n)
	}
	h.count.Store(int64(len(h.all)))
}

// addTo adds the names of the nodes to a list.
func (h *hiders) addTo(names []string) []string {
	if h.count.Load() == 0 {
		return names
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for n := range h.all {
		if !slices.Contains(names, n.name) {
			names = append(names, n.name)
		}
	}
	return names
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

// mostHiding is how many nodes are looked at for an ordinary pod before Filter. Of
// more, Filter looks at those that it has to.
const mostHiding = 16

// where returns the nodes on which the rule may say more at this moment. known is
// false where these are too many, or where a pod hides CPUs that is on no node yet:
// it may be nominated for any.
func (h *hiding) where() (names []string, known bool) {
	if h.pods == nil || h.nodes.count.Load() > mostHiding {
		return nil, false
	}
	names = h.nodes.addTo(h.pods.ListIndexFuncValues(hidesIndex))
	return names, len(names) <= mostHiding && !slices.Contains(names, "")
}

// roomWhereHidden says whether an ordinary pod leaves the accounting rule in force
// on every node where the rule says more than requests do: Filter would refuse it
// nowhere then. Nodes with nominated pods are left to Filter, which adds these.
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
			continue // no rule where nothing is known
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

// hidesValues is the index function.
func hidesValues(object any) ([]string, error) {
	if pod, ok := object.(*v1.Pod); ok && mayHide(pod) {
		return []string{pod.Spec.NodeName}, nil
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
	n.hiders.set(n, hides)
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
