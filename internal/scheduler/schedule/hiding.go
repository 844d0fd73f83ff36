package schedule

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/kubepod"
)

// hidesIndex is an index of the pod informer: the pods that may have more CPUs than they request. Its values are the
// nodes of these pods, also those for which the informer shows them nominated, and the profiles of unbound pods after
// profileOf. It changes with the informer's store, and so before any handler gets an event of the same change. So it is
// never behind a snapshot of the scheduler.
const hidesIndex = "berth.dev/hides"

// profileOf begins the values of hidesIndex that name the profile of an unbound pod. No node has such a name.
const profileOf = "/"

// hiding knows whether the accounting rule can refuse a pod that the sum of requests, which every scheduler checks,
// admits. In doubt the answer is yes.
type hiding struct {
	// pods has hidesIndex. changes counts the calls of the index for pods that hide CPUs, and with them every change of
	// the index; it is nil if another plugin made the index.
	pods    cache.Indexer
	changes *atomic.Uint64
	// own counts the changes of nodes and profiles, and cycles the cycles of pods that hide CPUs.
	own, cycles atomic.Uint64
	found       atomic.Pointer[hidden]

	mu sync.Mutex
	// nodes are the nodes that hide CPUs by what the plugin itself knows.
	nodes map[*node]struct{}
	// profiles are the profiles that have this plugin.
	profiles map[string]struct{}
}

// hidden is where the rule may refuse more than requests do. It never changes.
type hidden struct {
	of    hiddenOf
	spots []spot
	// nominated are the nodes that had nominated pods, if an unbound pod hides CPUs.
	nominated []string
	end       end
}

// end is how a search ended. Unless it is complete, Filter checks the pod.
type end uint8

const (
	// gaveUp is for too many spots, and for pods that may be nominated for any node.
	gaveUp end = iota
	// postponed leaves the search to the next cycle.
	postponed
	// complete has all spots and nominations.
	complete
)

// spot is a node that may hide CPUs, and its NodeInfo. A snapshot keeps the NodeInfo of a node for as long as its list.
type spot struct {
	node *node
	info fwk.NodeInfo
}

// hiddenOf is all that hidden depends on.
type hiddenOf struct {
	// first and size identify the list of the snapshot.
	first *fwk.NodeInfo
	size  int
	// directory is the version of the names of nodes.
	directory            uint64
	changes, own, cycles uint64
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
	h.own.Add(1)
}

// watch adds hidesIndex to an informer of pods.
func (h *hiding) watch(informer cache.SharedIndexInformer) error {
	h.pods = informer.GetIndexer()
	if _, there := h.pods.GetIndexers()[hidesIndex]; there {
		return nil // another plugin with the same informers added it
	}
	changes := new(atomic.Uint64)
	values := func(object any) ([]string, error) {
		found := hidesValues(object)
		if len(found) > 0 {
			changes.Add(1)
		}
		return found, nil
	}
	if err := informer.AddIndexers(cache.Indexers{hidesIndex: values}); err != nil {
		return watchError("pods", err)
	}
	h.changes = changes
	return nil
}

// begins notes the cycle of a pod, after the search of this cycle. If the pod hides CPUs, the next cycle searches again:
// this one may end with a nomination, which the framework knows before the informer shows it. The pod in the queue may be
// older than the informer's.
func (h *hiding) begins(pod *v1.Pod) {
	if mayHide(pod) || h.shows(pod) {
		h.cycles.Add(1)
	}
}

// learn notes that a profile has this plugin, before the search of each cycle.
func (h *hiding) learn(profile string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ours := h.profiles[profile]; ours {
		return
	}
	if h.profiles == nil {
		h.profiles = map[string]struct{}{}
	}
	h.profiles[profile] = struct{}{}
	h.own.Add(1)
}

// shows reports whether the informer shows that a pod hides CPUs.
func (h *hiding) shows(pod *v1.Pod) bool {
	if h.pods == nil || h.changes != nil && h.changes.Load() == 0 {
		return false
	}
	shown, _, err := h.pods.GetByKey(cache.MetaObjectToName(pod).String())
	return err != nil || len(hidesValues(shown)) > 0
}

// mostHiding bounds the nodes that are checked for an ordinary pod before Filter. If there are more, Filter checks only
// nodes that it must, and several at a time.
const mostHiding = 128

// names returns the nodes of the index and of the plugin, and whether an unbound pod hides CPUs. sure is false if such a
// pod has a profile without this plugin, whose cycles are not seen here.
func (h *hiding) names() (names map[string]struct{}, unbound, sure bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	names, sure = map[string]struct{}{}, true
	for n := range h.nodes {
		names[n.name] = struct{}{}
	}
	for _, value := range h.pods.ListIndexFuncValues(hidesIndex) {
		profile, is := strings.CutPrefix(value, profileOf)
		if !is {
			names[value] = struct{}{}
			continue
		}
		_, ours := h.profiles[profile]
		unbound, sure = true, sure && ours
	}
	return names, unbound, sure
}

// whereHidden returns where the rule may refuse more than requests do, among the nodes of the snapshot. The result is
// searched for again if anything changed that it depends on.
func (p *Plugin) whereHidden(nodes []fwk.NodeInfo) *hidden {
	h := &p.core.hiding
	of := hiddenOf{size: len(nodes), directory: p.core.nodes.version.Load(), own: h.own.Load(), cycles: h.cycles.Load()}
	if len(nodes) > 0 {
		of.first = &nodes[0]
	}
	if h.changes != nil {
		of.changes = h.changes.Load()
	}
	last := h.found.Load()
	again := last != nil && last.of == of && h.changes != nil
	if again && last.end != postponed {
		return last
	}
	found := findHidden(p, nodes, again)
	found.of = of
	h.found.Store(found)
	return found
}

// findHidden does the search of whereHidden. An unbound pod hides CPUs only on the node that it is nominated for. The
// framework runs one cycle at a time, so it knows all nominations by earlier cycles; a later one is a reason to search
// again. It is asked about every node, which costs as much as Filter. So the first cycle after a change is left to Filter:
// while pods that hide CPUs come in succession, no answer would last. No lock is held meanwhile, because the framework
// calls the plugin with locks of its own.
func findHidden(p *Plugin, nodes []fwk.NodeInfo, again bool) *hidden {
	if p.core.hiding.pods == nil || !p.core.caughtUp.Load() {
		return &hidden{end: postponed}
	}
	names, unbound, sure := p.core.hiding.names()
	if !sure || len(names) > mostHiding || len(nodes) == 0 && (unbound || len(names) > 0) {
		return &hidden{end: gaveUp}
	}
	if unbound && !again {
		return &hidden{end: postponed}
	}
	found := &hidden{end: complete, spots: spotsOf(p, names)}
	if unbound {
		found.nominated = nominatedAmong(p, nodes)
	}
	return found
}

// spotsOf returns the nodes with these names. It omits nodes without a machine, which have no rule, and nodes that the
// snapshot does not have: no pod can go there in this cycle, and a new node makes a new list.
func spotsOf(p *Plugin, names map[string]struct{}) (spots []spot) {
	infos := p.handle.SnapshotSharedLister().NodeInfos()
	for name := range names {
		info, err := infos.Get(name)
		if n := p.core.nodes.find(name); n != nil && err == nil {
			spots = append(spots, spot{n, info})
		}
	}
	return spots
}

// nominatedAmong returns the names of the nodes that have nominated pods.
func nominatedAmong(p *Plugin, nodes []fwk.NodeInfo) (names []string) {
	for _, info := range nodes {
		if info.Node() != nil && len(p.handle.NominatedPodsForNode(info.Node().Name)) > 0 {
			names = append(names, info.Node().Name)
		}
	}
	return names
}

// roomWhereHidden reports whether the accounting rule admits an ordinary pod on every node where it is stricter than
// requests: then Filter would refuse the pod nowhere. Nodes with nominated pods are left to Filter, which adds these
// pods.
func (p *Plugin) roomWhereHidden(cy *cycle, nodes []fwk.NodeInfo) bool {
	where := p.whereHidden(nodes)
	if where.end != complete {
		return false
	}
	for _, s := range where.spots {
		left, found := s.node.recallSurplus(cy.moment(s.info))
		if !found {
			left, _ = p.core.answers.surplusOf(s.node, view{info: s.info})
		}
		if cy.request > left {
			return false
		}
	}
	for _, s := range where.spots {
		if len(p.handle.NominatedPodsForNode(s.node.name)) > 0 {
			return false
		}
	}
	return !slices.ContainsFunc(where.nominated, func(name string) bool { return len(p.handle.NominatedPodsForNode(name)) > 0 })
}

// hidesValues returns the values of hidesIndex for a pod.
func hidesValues(object any) []string {
	pod, ok := object.(*v1.Pod)
	switch {
	case !ok || !mayHide(pod):
		return nil
	case pod.Spec.NodeName != "":
		return []string{pod.Spec.NodeName}
	case pod.Status.NominatedNodeName != "":
		return []string{profileOf + pod.Spec.SchedulerName, pod.Status.NominatedNodeName}
	}
	return []string{profileOf + pod.Spec.SchedulerName}
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
