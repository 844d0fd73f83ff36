package schedule

import (
	"context"
	"maps"
	"sync/atomic"
	"unique"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/internal/placement"
)

// stateKey is where a cycle is kept in the framework's CycleState.
const stateKey fwk.StateKey = Name

// cycle is what is known about the pod that is being scheduled. The framework
// clones it for every "what if": the clones share all that AddPod and RemovePod
// do not change.
type cycle struct {
	pod *v1.Pod
	uid types.UID
	// ask is what a pod asks for that gets exclusive CPUs, nil for any other.
	ask *placement.Ask
	// request is what the pod adds to a node, in thousandths of a CPU.
	request int64
	// alone says that the answers in this cycle are not those for another pod of
	// the same shape: a binding of the pod may have gone through unseen.
	alone bool
	// group says that the pod is one of a group, in whose cycle nodes change and
	// keep their generation.
	group bool
	// began is the moment when the cycle did, for waiting.note.
	began uint64
	// shape is that of ask, to be compared at once.
	shape unique.Handle[string]
	// claimed is what the pod's claims ask for and do not have yet, nil for nothing. Devices
	// come and go without a node's generation, so answers to such a pod are not remembered.
	claimed *claimed
	// narrowed says that the pod is shown its best nodes only.
	narrowed bool
	*clones

	// altered says that the node being looked at is not the one of the
	// snapshot: pods were added to it or taken from it.
	altered bool
	// evicting says that pods were taken from it: the framework looks for some to evict.
	evicting bool
	// trials are the placements of pods that were added although they are not
	// bound; shared between clones, copied when changed.
	trials map[types.UID]trial
	// removed are pods that were taken away; shared and copied as well.
	removed map[types.UID]struct{}
}

// clones is what all clones of a cycle know together.
type clones struct {
	// refused collects why nodes refuse the pod.
	refused atomic.Uint32
	// nominated says that some node was looked at with a pod that is nominated for
	// it; without one no node is asked again.
	nominated atomic.Bool
}

// trial is where a nominated pod would be.
type trial struct {
	node string
	held placement.Held
}

// Clone returns a copy that AddPod and RemovePod may change.
func (c *cycle) Clone() fwk.StateData {
	copied := *c
	return &copied
}

// cycleOf returns the cycle of a state, nil where PreFilter did not run.
func cycleOf(state fwk.CycleState) *cycle {
	data, err := state.Read(stateKey)
	if err != nil {
		return nil
	}
	c, _ := data.(*cycle)
	return c
}

// cycleOf returns the cycle of a pod: the one that began last, which nearly all
// calls are about, without a look into the state. It may be another clone of it.
func (p *Plugin) cycleOf(state fwk.CycleState, pod *v1.Pod) *cycle {
	if cy := p.current.Load(); cy != nil && cy.pod == pod {
		return cy
	}
	return cycleOf(state)
}

// AddPod notes that a pod was added to the node: one that is nominated gets a
// trial placement there, so that the CPUs it will have are not promised again.
func (p *Plugin) AddPod(_ context.Context, state fwk.CycleState, _ *v1.Pod, added fwk.PodInfo, info fwk.NodeInfo) *fwk.Status {
	if cy := cycleOf(state); cy != nil && info.Node() != nil {
		cy.nominated.Store(true)
		p.add(cy, added.GetPod(), info)
	}
	return nil
}

// add notes that a pod was added to info.
func (p *Plugin) add(cy *cycle, pod *v1.Pod, info fwk.NodeInfo) {
	cy.altered = true
	if _, found := cy.removed[pod.UID]; found {
		cy.removed = maps.Clone(cy.removed)
		delete(cy.removed, pod.UID)
	}
	if pod.Spec.NodeName == "" && mayPin(pod) {
		p.try(cy, pod, info)
	}
}

// withNominated returns a node as it will be with the pods of the pod's priority
// or above that are nominated for it, false where there are none.
func (p *Plugin) withNominated(v view) (view, bool) {
	nominated := p.handle.NominatedPodsForNode(v.info.Node().Name)
	if len(nominated) == 0 {
		return v, false
	}
	with, cy := view{}, *v.cy
	for _, one := range nominated {
		pod := one.GetPod()
		if pod.UID == cy.uid || corev1helpers.PodPriority(pod) < corev1helpers.PodPriority(cy.pod) {
			continue
		}
		if with.info == nil {
			with.info, with.cy = v.info.Snapshot(), &cy
		}
		with.info.AddPodInfo(one)
		p.add(with.cy, pod, with.info)
	}
	return with, with.info != nil
}

// try finds a trial placement for a pod that is in info already. Where there is
// none the pod counts with unknown CPUs.
func (p *Plugin) try(cy *cycle, pod *v1.Pod, info fwk.NodeInfo) {
	n := p.core.nodes.find(info.Node().Name)
	if n == nil {
		return
	}
	pin, problems := pinningOf(pod)
	if !pin.Wanted || len(problems) > 0 {
		return
	}
	its, ask := *cy, p.askOf(pin)
	its.pod, its.uid, its.ask, its.request, its.shape = pod, pod.UID, &ask, pin.Scheduled, unique.Make(ask.Shape)
	held, ok := p.core.answers.trial(n, info, &its)
	if !ok {
		return
	}
	cy.trials = maps.Clone(cy.trials)
	if cy.trials == nil {
		cy.trials = map[types.UID]trial{}
	}
	cy.trials[pod.UID] = trial{node: n.name, held: held}
}

// RemovePod notes that a pod was taken from the node.
func (p *Plugin) RemovePod(_ context.Context, state fwk.CycleState, _ *v1.Pod, removed fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	cy := cycleOf(state)
	if cy == nil {
		return nil
	}
	cy.altered, cy.evicting = true, true
	pod := removed.GetPod()
	if !mayPin(pod) {
		return nil
	}
	cy.removed = maps.Clone(cy.removed)
	if cy.removed == nil {
		cy.removed = map[types.UID]struct{}{}
	}
	cy.removed[pod.UID] = struct{}{}
	return nil
}
