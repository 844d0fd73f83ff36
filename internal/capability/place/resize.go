package place

import (
	"fmt"
	"slices"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/grant"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// The kubelet's words for a resize that is not carried out.
const (
	// deferred is a resize for which there is no room now: it is tried again.
	deferred = "Deferred"
	// infeasible is a resize for which even an empty node would have no room.
	infeasible = "Infeasible"
)

// putOff is a resize that the node could not follow.
type putOff struct {
	// pin is what the pod asks for.
	pin workload.Pinning
	// why is one sentence.
	why string
	// found is the obstacle: while it is the same, another try is useless.
	found obstacle
}

// obstacle is what a resize that was put off depends on. An infeasible resize depends on the machine only.
type obstacle struct {
	machine    *alloc.Machine
	infeasible bool
	taken      cpuset.Set
	requested  int64
}

// settled reports whether new limits take effect that the runtime did not ask about: the kubelet carried them out while
// the agent was away, or before the agent knew them. A host without Kubernetes has no kubelet, and limits take effect
// at once.
func (p *pod) settled() bool {
	return p.known && p.has.grant != nil && !p.spec.Resizing && !p.spec.Held() && !sameLimits(&p.asked.next, &p.asked.counted)
}

func sameLimits(a, b *workload.Pinning) bool {
	same := func(a, b workload.PinnedContainer) bool { return a.Name == b.Name && a.Limit == b.Limit }
	return a.Wanted == b.Wanted && slices.EqualFunc(a.Pinned, b.Pinned, same) && slices.EqualFunc(a.Others, b.Others, same)
}

// adoptLimits makes the pod ask for what its limits say now. A container whose limit is no longer a whole number keeps
// its CPUs. So does a pod whose limits the kubelet puts off: the reported limits may be older than the last resize.
func (n *Node) adoptLimits(p *pod) {
	if p.has.grant == nil || p.spec.Held() {
		return
	}
	next := p.asked.next
	p.asked.counted = next
	if !next.Wanted {
		n.reports.report(p, v1alpha1.EventCPUPinFailed, true, resizeText(infeasible, p.asked.problems.Line())+"; it keeps "+p.has.grant.List())
		return
	}
	next.Pinned, next.Others = slices.Clone(next.Pinned), slices.Clone(next.Others)
	for i := 0; i < len(next.Others); {
		c := next.Others[i]
		has := p.has.grant.Parts[c.Name].CPUs.Size()
		if has == 0 {
			i++
			continue
		}
		n.reports.report(p, v1alpha1.EventCPUPinFailed, true, fmt.Sprintf("the new limit of container %s, %s, is no whole number: it keeps CPUs %s",
			c.Name, thousandths(c.Limit), p.has.grant.Parts[c.Name].CPUs))
		c.CPUs, c.Limit = has, int64(has)*milli
		next.Pinned, next.Others = append(next.Pinned, c), append(next.Others[:i], next.Others[i+1:]...)
	}
	p.asked.count(next)
	p.asked.resized, p.asked.putOff, p.pending = true, nil, true
}

// tryAgain makes the Node decide a resize again that was put off, if something changed that it depends on.
func (n *Node) tryAgain(p *pod) {
	if p.asked.putOff == nil || p.has.grant == nil || n.obstacle(p, p.asked.putOff.found.infeasible) == p.asked.putOff.found {
		return
	}
	pin, _ := p.asked.putOff.pin.WithMemoryOf(&p.asked.next)
	p.asked.count(pin)
	p.asked.resized, p.asked.putOff, p.pending = true, nil, true
}

// obstacle returns what a resize of the pod depends on now.
func (n *Node) obstacle(p *pod, infeasible bool) obstacle {
	if infeasible {
		return obstacle{machine: n.facts.Machine, infeasible: true}
	}
	others := n.claims.without(p)
	return obstacle{machine: n.facts.Machine, taken: others.Taken.CPUs(), requested: n.nodeFor(p).RequestedMilli}
}

// postpone leaves the pod its CPUs, remembers the resize that the node cannot follow, and returns the reason.
func (n *Node) postpone(p *pod, refusal placement.Refusal) string {
	word := deferred
	empty := n.nodeFor(p)
	empty.RequestedMilli = 0
	alone := grant.Refit{Scratch: &n.scratch, Node: empty, Others: &placement.Occupancy{}, Ask: p.asked.request()}
	if _, never := alone.Keep(p.has.grant.Parts); !never.OK() {
		word, refusal = infeasible, never
	}
	p.asked.putOff = &putOff{pin: p.asked.pin, why: resizeText(word, refusal.Detail()), found: n.obstacle(p, word == infeasible)}
	p.asked.count(grant.AsHas(p.asked.pin, p.has.grant.Parts))
	return p.asked.putOff.why
}

// resizeText describes the outcome of a resize in the kubelet's words.
func resizeText(word, why string) string { return "Pod resize " + word + ": " + why }
