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

	"github.com/berth-project/berth/internal/capability/place/placement"
)

// stateKey is the key of a cycle in the framework's CycleState.
const stateKey fwk.StateKey = Name

// cycle is what is known about the pod that is being scheduled. The framework clones it for every "what if"; the clones
// share all that AddPod and RemovePod do not change.
type cycle struct {
	pod *v1.Pod
	uid types.UID
	// ask is what a pod with exclusive CPUs asks for, nil for any other pod.
	ask *placement.Ask
	// request is what the pod adds to a node, in thousandths of a CPU.
	request int64
	// alone reports that the answers in this cycle do not apply to other pods of the same shape: a binding of this pod
	// may have gone through unseen.
	alone bool
	// group reports whether the pod is part of a group. In the cycle of a group nodes change and keep their generation.
	group bool
	// began is queue.calls when the cycle began, for queue.note.
	began uint64
	// shape is the shape of ask, interned for fast comparison.
	shape unique.Handle[string]
	// claimed is what the pod's claims ask for and do not have yet, nil for nothing. Devices come and go without a
	// change of the node's generation, so the answers are not remembered.
	claimed *claimed
	// narrowed reports whether the pod is shown its best nodes only.
	narrowed bool
	*clones

	// altered reports that the node differs from that of the snapshot: pods were added or removed.
	altered bool
	// evicting reports that pods were removed: the framework searches for victims.
	evicting bool
	// trials are the placements of pods that were added without being bound; shared between clones, copied on change.
	trials map[types.UID]trial
	// removed are the pods that RemovePod took away; also shared, and copied on change.
	removed map[types.UID]struct{}
}

// clones is the state that all clones of a cycle share.
type clones struct {
	// refused collects why nodes refuse the pod.
	refused atomic.Uint32
	// nominated reports whether some node was seen with a pod that is nominated for it. If it is false, Score asks no
	// node again with nominated pods.
	nominated atomic.Bool
}

// trial is the placement that a nominated pod would get.
type trial struct {
	node string
	held placement.Held
}

// Clone returns a copy that AddPod and RemovePod may change.
func (c *cycle) Clone() fwk.StateData {
	copied := *c
	return &copied
}

// cycleOf returns the cycle of a state, nil if PreFilter did not run.
func cycleOf(state fwk.CycleState) *cycle {
	data, err := state.Read(stateKey)
	if err != nil {
		return nil
	}
	c, _ := data.(*cycle)
	return c
}

// cycleOf returns the cycle of a pod. Nearly all calls concern the last cycle, which is found without reading the
// state. The result may be another clone of the cycle.
func (p *Plugin) cycleOf(state fwk.CycleState, pod *v1.Pod) *cycle {
	if cy := p.current.Load(); cy != nil && cy.pod == pod {
		return cy
	}
	return cycleOf(state)
}

// AddPod notes that a pod was added to the node. A nominated pod gets a trial placement there, so that its CPUs are not
// promised again.
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

// withNominated returns a node with the nominated pods of the pod's priority or above added, false if there are none.
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

// try finds a trial placement for a pod that is in info already. Without a placement the pod counts with unknown CPUs.
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

// RemovePod notes that a pod was removed from the node.
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
