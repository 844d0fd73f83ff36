package schedule

import (
	"context"
	"unique"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/kubepod"
	"github.com/berth-project/berth/internal/intent/workload"
)

// PreFilter reads once what the pod asks for. A pod with unreadable keys gets an event and is treated as a pod without
// keys. Where nothing hides CPUs, requests are enough: Filter would admit an ordinary pod wherever NodeResourcesFit
// does. So the pod skips Filter if the few nodes where CPUs are hidden have room for it. A pinned pod may be shown some
// nodes only.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	p.core.catchUp(ctx)
	cy := &cycle{
		pod: pod, uid: pod.UID, clones: new(clones), began: p.core.queue.done(pod.UID),
		alone: p.core.flights.isAmbiguous(pod.UID), group: state.IsPodGroupSchedulingCycle(),
	}
	var requests v1.ResourceList // all requests of a pod with keys
	if kubepod.MayPin(pod) {
		requests = kubepod.Requests(pod)
		p.read(cy, pod, requests)
	}
	if cy.ask == nil {
		cy.request = requestOf(pod)
	}
	state.Write(stateKey, cy)
	p.current.Store(cy)
	p.core.hiding.learn(pod.Spec.SchedulerName)
	skips := cy.ask == nil && (cy.request == 0 || !cy.alone && !cy.group && p.roomWhereHidden(cy, nodes))
	p.core.hiding.begins(pod)
	if skips {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	table := p.core.nodes.placesOf(nodes)
	if cy.ask == nil {
		return nil, nil
	}
	if status := p.capped(pod, cy); status != nil {
		return nil, status
	}
	cy.claimed = p.claimedBy(ctx, pod)
	return shortlist{plugin: p, cy: cy, requests: requests, nodes: table}.result(), nil
}

// read reads what a pod with keys and these requests asks for into the cycle.
func (p *Plugin) read(cy *cycle, pod *v1.Pod, requests v1.ResourceList) {
	pin, problems := workload.PinningOf(kubepod.Requesting(pod, requests))
	if len(problems) > 0 {
		p.reportInvalid(pod, problems)
		return
	}
	if !pin.Wanted {
		return
	}
	if text := pin.UnknownText(); text != "" {
		p.reportPolicy(pod, text)
	}
	ask := p.askOf(pin)
	cy.ask, cy.request, cy.shape = &ask, pin.Scheduled, unique.Make(ask.Shape)
}

// askOf returns what a pod of this profile asks for.
func (p *Plugin) askOf(pin workload.Pinning) placement.Ask {
	ask := placement.AskOf(pin)
	ask.Default(p.rules.strategy)
	return ask
}

// requestOf returns the CPU request of a pod in thousandths. For the usual pod, which has only containers and none of
// them running, that is a plain sum.
func requestOf(pod *v1.Pod) int64 {
	if len(pod.Spec.InitContainers)+len(pod.Spec.Overhead)+len(pod.Status.ContainerStatuses) > 0 || pod.Spec.Resources != nil {
		return kubepod.Scheduled(pod)
	}
	sum := int64(0)
	for i := range pod.Spec.Containers {
		q := pod.Spec.Containers[i].Resources.Requests[v1.ResourceCPU]
		sum += q.MilliValue()
	}
	return sum
}

// PreFilterExtensions returns the plugin itself.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }
