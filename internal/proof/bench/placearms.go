package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/proof/rival"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// ErrPick reports that an arm returned CPUs that are not free or a wrong number of CPUs.
var ErrPick = errors.New("wrong CPUs")

// The promises that arms are compared within: an arm that may refuse a pod to keep its promise is compared to Berth
// under the same promise.
const (
	promiseNone   = "best effort"
	promiseWhole  = "whole cores only"
	promiseSingle = "one NUMA node only"
	promiseSpread = "a core for each thread"
)

// placeArm is one way to place the pods of a trace.
type placeArm struct {
	name, promise string
	// berth marks the arm that the other arms of the promise are compared to.
	berth bool
	// alignsL3 is true if the peer knows L3 domains.
	alignsL3 bool
	open     func(*topology.Topology) (pickCPUs, error)
}

// play plays a trace from its beginning. It shares no state with other arms.
func (a placeArm) play(ctx context.Context, t *topology.Topology, events []traceEvent) (PlaceCounts, error) {
	if err := ctx.Err(); err != nil {
		return PlaceCounts{}, fmt.Errorf("bench place: %w", err)
	}
	pick, err := a.open(t)
	if err != nil {
		return PlaceCounts{}, err
	}
	counts, err := runTrace(t, events, pick)
	if err != nil {
		return counts, fmt.Errorf("arm %s: %w", a.name, err)
	}
	return counts, nil
}

// placeArms lists all arms, Berth first in each promise.
func placeArms() []placeArm {
	whole := alloc.Request{Bind: alloc.FullPCPUs, BindStrength: alloc.Required}
	single := alloc.Request{NUMA: alloc.SingleNUMANode}
	spread := alloc.Request{Bind: alloc.SpreadByPCPUs}
	return []placeArm{
		berthArm("berth", promiseNone, alloc.Request{}),
		kubeletArm("kubelet", promiseNone, rival.Kubelet{}),
		kubeletArm("kubelet best-effort", promiseNone, rival.Kubelet{Topology: rival.BestEffort}),
		kubeletArm("kubelet uncore", promiseNone, rival.Kubelet{AlignByUncore: true}),
		kubeletArm("kubelet uncore best-effort", promiseNone, rival.Kubelet{AlignByUncore: true, Topology: rival.BestEffort}),
		koordinatorArm("koordinator", promiseNone, rival.Koordinator{}),
		koordinatorArm("koordinator most", promiseNone, rival.Koordinator{MostAllocated: true}),

		berthArm("berth whole", promiseWhole, whole),
		kubeletArm("kubelet full-pcpus", promiseWhole, rival.Kubelet{FullPCPUsOnly: true}),
		kubeletArm("kubelet full-pcpus uncore", promiseWhole, rival.Kubelet{FullPCPUsOnly: true, AlignByUncore: true}),

		berthArm("berth single", promiseSingle, single),
		kubeletArm("kubelet single", promiseSingle, rival.Kubelet{Topology: rival.SingleNUMANode}),
		kubeletArm("kubelet single uncore", promiseSingle, rival.Kubelet{Topology: rival.SingleNUMANode, AlignByUncore: true}),
		koordinatorArm("koordinator single", promiseSingle, rival.Koordinator{SingleNUMANode: true}),

		berthArm("berth spread", promiseSpread, spread),
		koordinatorArm("koordinator spread", promiseSpread, rival.Koordinator{Spread: true}),
	}
}

// berthArm places with the allocator that the scheduler uses.
func berthArm(name, promise string, r alloc.Request) placeArm {
	return placeArm{name: name, promise: promise, berth: true, open: func(t *topology.Topology) (pickCPUs, error) {
		m, err := alloc.Compile(t)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		scratch, request := &alloc.Scratch{}, r
		request.Wants = []alloc.Want{{Name: "main"}}
		return func(held cpuset.Set, n int) (cpuset.Set, bool) {
			var taken alloc.Taken
			m.Hold(&taken, alloc.Holding{CPUs: held})
			request.Wants[0].CPUs = n
			answer, refusal := m.Allocate(scratch, &taken, &request)
			return answer.CPUs, refusal.Code == alloc.Placed
		}, nil
	}}
}

// rivalPicker is the interface of both emulations.
type rivalPicker interface {
	Pick(m *rival.Machine, free cpuset.Set, n int) (cpus cpuset.Set, ok bool)
}

func kubeletArm(name, promise string, k rival.Kubelet) placeArm {
	return rivalArm(placeArm{name: name, promise: promise, alignsL3: k.AlignByUncore}, k)
}

func koordinatorArm(name, promise string, k rival.Koordinator) placeArm {
	return rivalArm(placeArm{name: name, promise: promise}, k)
}

func rivalArm(a placeArm, p rivalPicker) placeArm {
	a.open = func(t *topology.Topology) (pickCPUs, error) {
		m, err := rival.Compile(t)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.name, err)
		}
		return func(held cpuset.Set, n int) (cpuset.Set, bool) {
			return p.Pick(m, m.CPUs().Difference(held), n)
		}, nil
	}
	return a
}

// checkPick returns an error if an arm's answer is wrong.
func checkPick(t *topology.Topology, held, cpus cpuset.Set, n int) error {
	free := t.Containers().Difference(held)
	if cpus.Size() != n || !cpus.IsSubsetOf(free) {
		return fmt.Errorf("%w: %s for %d CPUs, free are %s", ErrPick, cpus, n, free)
	}
	return nil
}
