package schedule

import (
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/alloc"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/kubepod"
	"github.com/berth-project/berth/internal/placement"
	"github.com/berth-project/berth/internal/workload"
)

// node is what the plugin knows about one node apart from its NodeInfo. It
// never knows what is free there: that is worked out from the pods whenever it
// is asked for, and only remembered for as long as nothing changed.
type node struct {
	// memo and left remember answers until touch forgets them; shut is the one
	// that refuses all pinned pods, nil where access does not. All are read
	// without mu and written with it. They come first, to be in one line of memory.
	shut atomic.Pointer[result]
	left atomic.Pointer[spare]
	memo memo

	mu   sync.Mutex
	name string
	// gone says that core does not know this node any more.
	gone bool
	// machine is that of the last believable NodeTopology, nil once there is none and no pod
	// holds CPUs.
	machine *alloc.Machine
	// hash names the machine in placements.
	hash string
	// given is the memory of the machine that the kubelet gave to pods.
	given placement.Given
	// access says whether pods may be pinned here.
	access access
	// records are the pinned pods that were read, by UID.
	records map[types.UID]*record
	// behind says that the last walk over the pods met one in an earlier state than that of its
	// record: the scheduler's cache may hear of a change after the plugin, which called those
	// who wait already. A cycle that is refused by the earlier state is tried again.
	behind bool
	// late are pods that asked for CPUs only after they were bound.
	late map[types.UID]bool
	// unasked are pods with a placement that did not ask for CPUs when they were read first.
	unasked map[types.UID]bool
	// caps says which namespaces may have exclusive CPUs; nil for all.
	caps *caps
	// ambiguous are the bindings that may have gone through.
	ambiguous []*ambiguousBind
	// allocatable is what the node offers to all pods, in thousandths of a CPU.
	allocatable int64
	// hiding says that the node is counted in hiders.
	hiding bool
	hiders *hiders
	// pass numbers the walks over the pods.
	pass uint32
}

// record is one pinned pod, as far as it was read: a cache of what its
// annotation says, or what was reserved before it has one. There are as many as
// pinned pods in the cluster, so it is kept small.
type record struct {
	// pod is what held was made from: the bound pod, or the one that the
	// scheduler assumes to be bound.
	pod  *v1.Pod
	held placement.Held
	// pass is the last walk over the pods that met it.
	pass uint32
	// reserved says that this scheduler is placing the pod here.
	reserved bool
	// confirmed says that the API server showed the pod bound here.
	confirmed bool
	// sight says whether snapshots have the pod.
	sight sight
	// sweeps counts those since the reservation was given up, which is kept for
	// snapshots that are older than that; of a confirmed pod, those in turn that
	// did not find it.
	sweeps uint8
}

// sight is what is known about a pod in snapshots, since it was reserved or, as one
// that is bound, since it was confirmed.
type sight uint8

const (
	// unseen is a pod that was in no NodeInfo yet.
	unseen sight = iota
	// foretold is one that was bound although its binding seemed to fail: the API server said
	// so when it was asked, or the informer shows it. What the pod requests counts in no
	// NodeInfo before one has it.
	foretold
	// seen is one that was in a NodeInfo.
	seen
)

// missing says whether the record counts although its pod is not among those of
// the NodeInfo: snapshots are older than reservations made in the same cycle,
// and than what the informer showed since.
func (r *record) missing() bool {
	return r.holds() && (!r.confirmed || r.sight != seen)
}

// holds says whether the pod has its CPUs now, as far as this process knows.
func (r *record) holds() bool { return r.reserved || r.confirmed }

// put adds or replaces a record. The caller holds mu.
func (n *node) put(uid types.UID, r *record) {
	if n.records == nil {
		n.records = map[types.UID]*record{}
	}
	n.records[uid] = r
	n.touch()
}

// drop forgets a record and says whether there was one. The caller holds mu.
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

// outlives says whether the machine of a NodeTopology that is gone counts for no pod any more.
// The caller holds mu.
func (n *node) outlives() bool {
	return n.machine != nil && !n.access.known() && len(n.records) == 0 && len(n.ambiguous) == 0
}

// heldBy returns what a bound pod of a NodeInfo holds, and whether it is pinned
// at all. What a pod asks for was read when it was created: one that does not
// ask any more keeps what it has. The caller holds mu.
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

// remember keeps the record of a pod that a walk over the NodeInfo met first. The caller holds mu.
func (n *node) remember(uid types.UID, r *record) {
	r.pass, r.sight = n.pass, seen
	n.records = makeIfNil(n.records)
	n.records[uid] = r
	if r.hides() {
		n.weigh()
	}
}

// meets is record.meet, after which the node may hide CPUs no more. The caller holds mu.
func (n *node) meets(r *record, pod *v1.Pod) bool {
	was := r.sight
	known := r.meet(n.pass, pod)
	if was == foretold && r.sight == seen {
		n.weigh()
	}
	return known
}

// meet notes that the walk over the pods met one, and says whether the record says what this one holds.
func (r *record) meet(pass uint32, pod *v1.Pod) bool {
	r.pass = pass
	if !r.confirmed || r.pod == pod || shownBound(pod) {
		r.sight = seen
	}
	return r.known(pod)
}

// known says whether the record says what this pod of a NodeInfo holds. A pod
// that the API server did not bind yet is the one that was assumed, whatever its
// annotations say; snapshots have it for a while after the informer showed it
// bound.
func (r *record) known(pod *v1.Pod) bool {
	return r.pod == pod || r.reserved && !r.confirmed || r.confirmed && !shownBound(pod)
}

// isNewer says whether the record was made from a later state of the pod than that of a
// NodeInfo.
func (r *record) isNewer(pod *v1.Pod) bool {
	if !r.confirmed {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(r.pod.ResourceVersion, pod.ResourceVersion)
	return err == nil && order > 0
}

// shownBound says whether the object comes from after the binding, which sets
// the condition.
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

// readAll reads every record anew, because the machine changed. The caller
// holds mu.
func (n *node) readAll() {
	for _, r := range n.records {
		// A reservation stands for a decision on its way to the API server; Bind
		// refuses it where the machine is not the same any more.
		if !r.confirmed && (r.reserved || r.sweeps > 0) {
			continue
		}
		if read, pinned, _ := n.read(r.pod, flight{}); pinned && !n.isForged(r) {
			r.held = read.held
		}
	}
	n.touch()
}

// read reads what a bound pod holds here, and says whether it is pinned, and whether it asks
// for that. Of CPUs
// that are not known it holds none where no node would give it any, and counts with
// its request like any other: else a pod that was bound past this scheduler could
// close the node to all. The caller holds mu.
func (n *node) read(pod *v1.Pod, from flight) (r record, pinned, asks bool) {
	r, pinned, asks = readRecord(n.machine, pod, from)
	unknown := r.held.Unknown()
	if unknown > 0 && r.held.CPUs().IsEmpty() && (n.late[pod.UID] || !n.caps.mayHave(pod, unknown)) {
		r.held = placement.Held{}
	}
	return r, pinned, asks
}

// readRecord reads what a bound pod holds from its annotation, and says whether
// it is pinned: it has CPUs, whatever its keys say by now, or asks for some.
func readRecord(m *alloc.Machine, pod *v1.Pod, from flight) (r record, pinned, asks bool) {
	pin, _ := pinningOf(pod)
	held := placement.Counted(m, pin, from.reads(pod.Annotations[v1alpha1.AnnotationPlacement]))
	if !pin.Wanted && held.CPUs().IsEmpty() {
		return record{}, false, false
	}
	return record{pod: pod, held: held}, true, pin.Wanted
}

// mayPin says whether a pod can hold CPUs, which most pods cannot.
func mayPin(pod *v1.Pod) bool { return kubepod.MayPin(pod) && !kubepod.Complete(pod) }

// pinningOf reads what a pod asks for.
func pinningOf(pod *v1.Pod) (workload.Pinning, v1alpha1.FieldErrors) {
	return workload.PinningOf(kubepod.Of(pod))
}

// others returns what the pods but one hold whose records count. The caller holds mu.
func (n *node) others(uid types.UID, count func(*record) bool) placement.Occupancy {
	var o placement.Occupancy
	for other, r := range n.records {
		if other != uid && count(r) {
			o.Add(n.machine, &r.held)
		}
	}
	return o
}

// beside returns what a pod and all others hold, as far as this process knows, with the
// CPUs that the pod shares with one of them. The caller holds mu.
func (n *node) beside(uid types.UID, held *placement.Held) placement.Occupancy {
	o := n.others(uid, (*record).holds)
	for _, b := range n.ambiguous {
		if b.uid != uid {
			o.Add(n.machine, &b.held)
		}
	}
	o.Overlaps = cpuset.Set{}
	o.AddGiven(n.given)
	o.Add(n.machine, held)
	return o
}
