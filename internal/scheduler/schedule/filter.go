package schedule

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/scheduler/repack"
)

// Refusals without figures, so that kube-scheduler can count the nodes with the same text.
const (
	textPromised = "node(s) had CPUs promised to pinned containers"
	textOthers   = "node(s) keep their pods: other nodes come first"
	textUnlisted = "node(s) had a Berth agent whose Lease is not read yet"
)

// Filter decides whether a node takes the pod. For a pinned pod it chooses the CPUs as Reserve will. For any other pod
// it compares the request with what pinned pods leave, which the sum of requests does not show.
func (p *Plugin) Filter(_ context.Context, state fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	if info.Node() == nil {
		return fwk.AsStatus(fmt.Errorf("filter pod %s/%s: %w", pod.Namespace, pod.Name, errNoNode))
	}
	cy := p.cycleOf(state, pod)
	if cy == nil {
		return fwk.AsStatus(fmt.Errorf("filter pod %s/%s: %w", pod.Namespace, pod.Name, errNoCycle))
	}
	n := p.core.nodes.at(info)
	if cy.ask == nil {
		return p.filterOrdinary(n, cy, state, info)
	}
	if cy.narrowed {
		if own := cycleOf(state); own != nil && own.evicting {
			return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, textOthers)
		}
	}
	if n == nil {
		return p.refuse(cy, refusedByTopology, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, placement.TextNoTopology))
	}
	r := n.recall(cy.moment(info), cy)
	if r == nil {
		r = p.core.answers.resultOf(n, view{info: info, cy: cycleOf(state)})
	}
	if r.status == nil {
		return nil
	}
	p.core.queue.again(cy.pod, r.behind)
	return p.refuse(cy, r.reason, r.refusal(p.rules.saysRepack))
}

// refusal returns why a node refuses the pod, and on request how many moves are known to make room. Filter searches for
// no moves: a search runs beside the cycles.
func (r *result) refusal(withMoves bool) *fwk.Status {
	if !withMoves || r.moves == nil {
		return r.status
	}
	moves := r.moves.Load()
	if moves == 0 {
		return r.status
	}
	return fwk.NewStatus(r.status.Code(), slices.Concat(r.status.Reasons(), []string{repack.Reason(int(moves))})...)
}

// filterOrdinary applies the accounting rule to pods that share their CPUs.
func (p *Plugin) filterOrdinary(n *node, cy *cycle, state fwk.CycleState, info fwk.NodeInfo) *fwk.Status {
	if n == nil || cy.request == 0 {
		return nil
	}
	left, found := n.recallSurplus(cy.moment(info))
	behind := false
	if !found || cy.alone {
		left, behind = p.core.answers.surplusOf(n, view{info: info, cy: cycleOf(state)})
	}
	if cy.request <= left {
		return nil
	}
	p.core.queue.again(cy.pod, behind)
	return p.refuse(cy, refusedByPromise, fwk.NewStatus(fwk.Unschedulable, textPromised))
}

// refuse notes why a node refuses the pod, for the events that may change the answer.
func (p *Plugin) refuse(cy *cycle, reason refusal, status *fwk.Status) *fwk.Status {
	before := cy.refused.Or(uint32(reason))
	if before&uint32(reason) == 0 {
		p.core.meters.refused(reason)
		if p.core.queue.note(cy.pod, reason, cy.began) {
			p.core.queue.activateOne(cy.pod)
		}
	}
	return status
}
