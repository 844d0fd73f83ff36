package schedule

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Texts of refusals without figures, so that kube-scheduler can count nodes
// that say the same.
const (
	textPromised   = "CPUs promised to pinned containers"
	textNoTopology = "no NodeTopology"
	textLies       = "NodeTopology is not valid"
	textStale      = "Berth agent not heard of"
	textUnlisted   = "Leases of the Berth agents not read yet"
	textUnpinnable = "node not pinnable"
)

// Filter says whether a node takes the pod. For a pinned pod it chooses the
// CPUs as Reserve will; for any other one it compares the request with what
// pinned pods leave, which the sum of requests does not show.
func (p *Plugin) Filter(_ context.Context, state fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	cy := cycleOf(state)
	if cy == nil || info.Node() == nil {
		return fwk.AsStatus(fmt.Errorf("filter pod %s/%s: %w", pod.Namespace, pod.Name, errNoCycle))
	}
	n := p.core.node(info.Node().Name)
	if !cy.pinned {
		return p.filterOrdinary(n, pod, view{info: info, cy: cy})
	}
	if n == nil {
		return p.refuse(pod, cy, refusedByTopology, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, textNoTopology))
	}
	r := p.core.resultOf(n, view{info: info, cy: cy})
	if r.status == nil {
		return nil
	}
	return p.refuse(pod, cy, r.reason, r.status)
}

// filterOrdinary is the accounting rule for pods that share their CPUs.
func (p *Plugin) filterOrdinary(n *node, pod *v1.Pod, v view) *fwk.Status {
	if n == nil || v.cy.request == 0 {
		return nil
	}
	surplus, known := p.core.surplusOf(n, v)
	if !known || v.cy.request <= surplus {
		return nil
	}
	return p.refuse(pod, v.cy, refusedByPromise, fwk.NewStatus(fwk.Unschedulable, textPromised))
}

// refuse notes why a node refuses the pod, for the events that may change that.
func (p *Plugin) refuse(pod *v1.Pod, cy *cycle, reason refusal, status *fwk.Status) *fwk.Status {
	before := cy.refused.Or(uint32(reason))
	if before&uint32(reason) == 0 {
		p.core.waiting.note(pod, reason)
		p.core.meters.refused(reason)
	}
	return status
}
