package schedule

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/intent/kubepod"
)

// EventsToRegister returns the events of the scheduler's own informers that may end a refusal. NodeTopologies are not
// among them: the scheduler would wait at its start for an informer of a type that may not exist. The plugin itself
// wakes the queue after changes of NodeTopologies, Leases, placements and ambiguous binds.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete},
			QueueingHintFn: p.afterPodDelete,
		},
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodScaleDown | fwk.UpdatePodLabel},
			QueueingHintFn: p.afterPodUpdate,
		},
		{
			Event: fwk.ClusterEvent{
				Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeAllocatable | fwk.UpdateNodeLabel,
			},
			QueueingHintFn: p.afterNode,
		},
	}, nil
}

// afterPodDelete reports whether the end of a pod helps a refused pod. The deleted pod must have been on a node with a
// known machine. It must have been able to hold exclusive CPUs. If the refused pod waits for lower requests, a CPU
// request also suffices.
func (p *Plugin) afterPodDelete(_ klog.Logger, pod *v1.Pod, before, _ any) (fwk.QueueingHint, error) {
	gone, ok := before.(*v1.Pod)
	if !ok {
		return fwk.Queue, nil
	}
	if gone.Spec.NodeName == "" {
		// A nominated pod held only a trial placement.
		return hint(gone.Status.NominatedNodeName != "" && gone.UID != pod.UID), nil
	}
	why, pins := p.core.queue.why(pod.UID), kubepod.MayPin(gone)
	if why&refusedByCap != 0 && pins && gone.Namespace == pod.Namespace {
		return fwk.Queue, nil
	}
	if !p.core.nodes.knows(gone.Spec.NodeName) {
		return fwk.QueueSkip, nil
	}
	helps := why&(refusedByCPUs|refusedByRace) != 0 && pins ||
		why&refusedByPromise != 0 && (pins || kubepod.Scheduled(gone) > 0)
	if helps {
		p.core.queue.hinted(pod.UID)
	}
	return hint(helps), nil
}

// afterPodUpdate reports whether a smaller request, of the pod itself or of a bound pod, or a label that turns pinning
// on or off helps.
func (p *Plugin) afterPodUpdate(_ klog.Logger, pod *v1.Pod, before, after any) (fwk.QueueingHint, error) {
	old, ok := before.(*v1.Pod)
	now, same := after.(*v1.Pod)
	if !ok || !same {
		return fwk.Queue, nil
	}
	if now.UID == pod.UID {
		return hint(kubepod.Scheduled(now) < kubepod.Scheduled(old) ||
			now.Labels[v1alpha1.LabelQoSClass] != old.Labels[v1alpha1.LabelQoSClass]), nil
	}
	why := p.core.queue.why(pod.UID)
	if now.Spec.NodeName == "" || !p.core.nodes.knows(now.Spec.NodeName) || why&refusedByPromise == 0 {
		return fwk.QueueSkip, nil
	}
	return hint(kubepod.Scheduled(now) < kubepod.Scheduled(old)), nil
}

// afterNode reports whether a new node, more allocatable CPU or another policy of a node helps.
func (p *Plugin) afterNode(_ klog.Logger, pod *v1.Pod, before, after any) (fwk.QueueingHint, error) {
	now, ok := after.(*v1.Node)
	if !ok {
		return fwk.Queue, nil
	}
	why := p.core.queue.why(pod.UID)
	old, updated := before.(*v1.Node)
	if !updated || old == nil {
		// A topology that comes later than the node activates the pods.
		return hint(p.core.nodes.knows(now.Name) || why&refusedByPromise != 0), nil
	}
	if !p.core.nodes.knows(now.Name) {
		return fwk.QueueSkip, nil
	}
	if why&(refusedByPromise|refusedByCPUs|refusedBySize) != 0 && now.Status.Allocatable.Cpu().Cmp(*old.Status.Allocatable.Cpu()) > 0 {
		return fwk.Queue, nil
	}
	for _, key := range [...]string{v1alpha1.NodeLabelCPUBindPolicy, v1alpha1.NodeLabelNUMATopologyPolicy} {
		if now.Labels[key] != old.Labels[key] {
			return hint(why&(refusedByPolicy|refusedByCPUs|refusedBySize) != 0), nil
		}
	}
	return fwk.QueueSkip, nil
}

func hint(helps bool) fwk.QueueingHint {
	if helps {
		return fwk.Queue
	}
	return fwk.QueueSkip
}
