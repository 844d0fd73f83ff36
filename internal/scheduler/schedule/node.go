package schedule

import (
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/kubepod"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// node is what the plugin knows about one node apart from its NodeInfo. It does not store what is free: that is
// computed from the pods on demand, and remembered only while nothing changes.
type node struct {
	// memo and left remember answers until touch forgets them. shut is the answer that refuses all pinned pods, nil if
	// access does not. All are read without mu and written with it. They come first, to share one cache line.
	shut atomic.Pointer[result]
	left atomic.Pointer[spare]
	memo memo

	mu   sync.Mutex
	name string
	// gone reports that core does not know this node any more.
	gone bool
	// machine is from the last NodeTopology that can be true. It is nil if there is no such NodeTopology any more and
	// no pod holds CPUs.
	machine *alloc.Machine
	// hash identifies the machine in placements.
	hash string
	// given is the memory of the machine that the kubelet gave to pods.
	given placement.Given
	// access decides whether pods may be pinned here.
	access access
	// records are the known pinned pods, by UID.
	records map[types.UID]*record
	// behind reports that the last walk over the pods met an earlier state of a pod than its record has. The
	// scheduler's cache may learn of a change after the plugin, which has already woken the waiting pods. A cycle that
	// is refused by the earlier state is tried again.
	behind bool
	// late are pods that asked for CPUs only after they were bound.
	late map[types.UID]bool
	// unasked are pods with a placement that did not ask for CPUs when they were read first.
	unasked map[types.UID]bool
	// usage decides which namespaces may have exclusive CPUs; nil for all.
	usage *usage
	// ambiguous are the bindings that may have gone through.
	ambiguous []*ambiguousBind
	// allocatable is what the node offers to all pods, in thousandths of a CPU.
	allocatable int64
	// hiding reports whether the node counts in hiders.
	hiding bool
	hiders *hiding
	// pass numbers the walks over the pods.
	pass uint32
}

// record is one pinned pod: a cache of its annotation, or the reservation before it has an annotation. There are as
// many records as pinned pods in the cluster, so they are small.
type record struct {
	// pod is the source of held: the bound pod, or the pod that the scheduler assumes to be bound.
	pod  *v1.Pod
	held placement.Held
	// pass is the number of the last walk over the pods that met the pod.
	pass uint32
	// reserved reports that this scheduler is placing the pod here.
	reserved bool
	// confirmed reports that the API server showed the pod bound here.
	confirmed bool
	// sight records whether snapshots have the pod.
	sight sight
	// sweeps counts the sweeps since the reservation ended, because older snapshots still have it. For a confirmed pod,
	// it counts the successive sweeps that did not find the pod.
	sweeps uint8
}

// sight is what snapshots have shown of a pod since it was reserved or, for a bound pod, since it was confirmed.
type sight uint8

const (
	// unseen is a pod that no NodeInfo had yet.
	unseen sight = iota
	// foretold is a pod that was bound although its binding seemed to fail: the API server said so when asked, or the
	// informer shows it. No NodeInfo counts its requests until one has the pod.
	foretold
	// seen is a pod that was in a NodeInfo.
	seen
)

// missing reports whether the record counts although its pod is not in the NodeInfo: snapshots are older than
// reservations of the same cycle, and than later news from the informer.
func (r *record) missing() bool {
	return r.holds() && (!r.confirmed || r.sight != seen)
}

// holds reports whether the pod has its CPUs now, as far as this process knows.
func (r *record) holds() bool { return r.reserved || r.confirmed }

// put adds or replaces a record. The caller holds mu.
func (n *node) put(uid types.UID, r *record) {
	if n.records == nil {
		n.records = map[types.UID]*record{}
	}
	n.records[uid] = r
	n.touch()
}

// drop forgets a record and reports whether there was one. The caller holds mu.
func (n *node) drop(uid types.UID) bool {
	if _, found := n.records[uid]; !found {
		return false
	}
	delete(n.records, uid)
	delete(n.late, uid)
	delete(n.unasked, uid)
	if n.outlives() {
		n.machine = nil
	}
	n.touch()
	return true
}

// outlives reports whether the machine remains from a NodeTopology that is gone, and no pod needs it any more. The
// caller holds mu.
func (n *node) outlives() bool {
	return n.machine != nil && !n.access.known() && len(n.records) == 0 && len(n.ambiguous) == 0
}

// heldBy returns what a bound pod of a NodeInfo holds, and whether it is pinned at all. Keys are read when a pod is
// created: a pod that does not ask any more keeps what it has. The caller holds mu.
func (n *node) heldBy(pod *v1.Pod) (placement.Held, bool) {
	r := n.records[pod.UID]
	if kubepod.Complete(pod) || r == nil && !kubepod.MayPin(pod) {
		return placement.Held{}, false
	}
	if r != nil && n.meets(r, pod) {
		return r.held, true
	}
	n.behind = n.behind || r != nil && r.isNewer(pod)
	read, pinned, asks := n.read(pod, flight{})
	if !asks && n.forges(nil, pod) {
		read, pinned = record{pod: pod}, true
	}
	switch {
	case !pinned && r != nil && r.confirmed:
		return r.held, true
	case pinned && r == nil:
		n.remember(pod.UID, &read)
	}
	return read.held, pinned
}

// remember stores the record of a pod that a walk over the NodeInfo met first. The caller holds mu.
func (n *node) remember(uid types.UID, r *record) {
	r.pass, r.sight = n.pass, seen
	n.records = makeIfNil(n.records)
	n.records[uid] = r
	if r.hides() {
		n.weigh()
	}
}

// meets calls record.meet, after which the node may hide no CPUs any more. The caller holds mu.
func (n *node) meets(r *record, pod *v1.Pod) bool {
	was := r.sight
	known := r.meet(n.pass, pod)
	if was == foretold && r.sight == seen {
		n.weigh()
	}
	return known
}

// meet notes that a walk met the pod, and reports whether the record is valid for this object.
func (r *record) meet(pass uint32, pod *v1.Pod) bool {
	r.pass = pass
	if !r.confirmed || r.pod == pod || shownBound(pod) {
		r.sight = seen
	}
	return r.known(pod)
}

// known reports whether the record states what this pod of a NodeInfo holds. A pod without a bind by the API server is
// the assumed pod, whatever its annotations are. Snapshots have it for a while after the informer showed it bound.
func (r *record) known(pod *v1.Pod) bool {
	return r.pod == pod || r.reserved && !r.confirmed || r.confirmed && !shownBound(pod)
}

// isNewer reports whether the record is from a later state of the pod than the NodeInfo.
func (r *record) isNewer(pod *v1.Pod) bool {
	if !r.confirmed {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(r.pod.ResourceVersion, pod.ResourceVersion)
	return err == nil && order > 0
}

// shownBound reports whether the object is from after the binding, which sets the condition.
func shownBound(pod *v1.Pod) bool {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == v1.PodScheduled {
			return pod.Status.Conditions[i].Status == v1.ConditionTrue
		}
	}
	return false
}

func makeIfNil(m map[types.UID]*record) map[types.UID]*record {
	if m == nil {
		return map[types.UID]*record{}
	}
	return m
}

// readAll reads every record again, because the machine changed. The caller holds mu.
func (n *node) readAll() {
	for _, r := range n.records {
		// A reservation is a decision on its way to the API server; Bind refuses it if the machine changed.
		if !r.confirmed && (r.reserved || r.sweeps > 0) {
			continue
		}
		if read, pinned, _ := n.read(r.pod, flight{}); pinned && !n.isForged(r) {
			r.held = read.held
		}
	}
	n.touch()
}

// read returns what a bound pod holds here, whether it is pinned, and whether it asks for that. The pod holds no
// unknown CPUs if no node would give it any, and then counts by its request like any other pod. Otherwise a pod that
// bypassed this scheduler could close the node to all. The caller holds mu.
func (n *node) read(pod *v1.Pod, from flight) (r record, pinned, asks bool) {
	r, pinned, asks = readRecord(n.machine, pod, from)
	unknown := r.held.Unknown()
	if unknown > 0 && r.held.CPUs().IsEmpty() && (n.late[pod.UID] || !n.usage.mayHave(pod, unknown)) {
		r.held = placement.Held{}
	}
	return r, pinned, asks
}

// readRecord reads what a bound pod holds from its annotation, and reports whether it is pinned: it has CPUs, whatever
// its keys are by now, or asks for some.
func readRecord(m *alloc.Machine, pod *v1.Pod, from flight) (r record, pinned, asks bool) {
	pin, _ := pinningOf(pod)
	held := placement.Counted(m, pin, from.reads(pod.Annotations[v1alpha1.AnnotationPlacement]))
	if !pin.Wanted && held.CPUs().IsEmpty() {
		return record{}, false, false
	}
	return record{pod: pod, held: held}, true, pin.Wanted
}

// mayPin reports whether a pod can hold CPUs. Most pods cannot.
func mayPin(pod *v1.Pod) bool { return kubepod.MayPin(pod) && !kubepod.Complete(pod) }

// pinningOf reads what a pod asks for.
func pinningOf(pod *v1.Pod) (workload.Pinning, v1alpha1.FieldErrors) {
	return workload.PinningOf(kubepod.Of(pod))
}

// holder returns the record of a pod that holds its CPUs now, nil for none. The caller holds mu.
func (n *node) holder(uid types.UID) *record {
	if r := n.records[uid]; r != nil && r.holds() {
		return r
	}
	return nil
}

// others adds up what the counted pods hold, without the pod uid. The caller holds mu.
func (n *node) others(uid types.UID, count func(*record) bool) placement.Occupancy {
	var o placement.Occupancy
	for other, r := range n.records {
		if other != uid && count(r) {
			o.Add(n.machine, &r.held)
		}
	}
	return o
}

// beside returns what a pod and the others that count hold, as far as this process knows. Overlaps has the CPUs that the
// pod shares with another pod, and Clash says whether it shares a NUMA node with a pod although one of the two excludes
// the other there. The caller holds mu.
func (n *node) beside(uid types.UID, held *placement.Held, count func(*record) bool) placement.Occupancy {
	o := n.others(uid, count)
	for _, b := range n.ambiguous {
		if b.uid != uid {
			n.addAmbiguous(b, n.holder(b.uid), &o)
		}
	}
	o.Overlaps, o.Clash = cpuset.Set{}, false
	o.AddGiven(n.given)
	o.Add(n.machine, held)
	return o
}
