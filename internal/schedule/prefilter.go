package schedule

import (
	"context"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/internal/kubepod"
	"github.com/berth-project/berth/internal/placement"
)

// PreFilter reads once what the pod asks for. A pod whose keys cannot be read
// gets an event and is treated as one without them.
func (p *Plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	p.core.waiting.done(pod.UID)
	cy := &cycle{uid: pod.UID, refused: new(atomic.Uint32)}
	if kubepod.MayPin(pod) {
		p.read(cy, pod)
	}
	state.Write(stateKey, cy)
	if !cy.pinned {
		cy.request = kubepod.Scheduled(pod)
		return nil, nil
	}
	cy.alone = p.core.flights.haunted(pod.UID)
	return nil, p.capped(pod, cy)
}

// read fills in what a pod with keys asks for.
func (p *Plugin) read(cy *cycle, pod *v1.Pod) {
	pin, problems := pinningOf(pod)
	if len(problems) > 0 {
		p.tellInvalid(pod, problems)
		return
	}
	if !pin.Wanted {
		return
	}
	cy.pinned, cy.pinning, cy.request = true, pin, pin.Scheduled
	cy.ask = placement.AskOf(pin)
}

// PreFilterExtensions returns the plugin itself.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }
