package place

import (
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/grant"
	"github.com/berth-project/berth/internal/capability/place/placement"
)

// placeAll finds CPUs for the pods that ask and lack some, in the order of their claims.
func (n *Node) placeAll(o *placement.Occupancy) {
	for _, c := range n.claims.all {
		p := c.pod
		p.has.behind = false
		if p.asked.halfway && p.has.grant != nil {
			p.asked.count(grant.AsHas(p.asked.pin, p.has.grant.Parts))
		}
		if p.asked.halfway = false; c.cause == "" {
			n.tryAgain(p)
		}
		if p.pending && p.asks() && !p.full() {
			n.place(c, o)
		} else if p.pending && c.cause != "" && !p.asks() {
			n.reports.lost(c)
		}
		if p.full() || p.has.grant != nil && !p.asks() {
			p.has.denied, p.has.word, p.has.wait, p.has.until = "", "", false, 0
		}
		// A pod that waits for a leaving pod is reconsidered at every change.
		p.pending, p.asked.resized = p.has.behind, false
	}
}

// full reports whether every container has as many CPUs as it should.
func (p *pod) full() bool {
	if p.has.grant == nil {
		return false
	}
	for _, c := range p.asked.pin.Pinned {
		if p.has.grant.Parts[c.Name].CPUs.Size() != c.CPUs {
			return false
		}
	}
	return true
}

// place finds CPUs for one pod. The pod keeps its present CPUs if that is possible at all.
func (n *Node) place(c *claim, o *placement.Occupancy) {
	p := c.pod
	if p.has.grant == nil {
		d, refusal := placement.Decide(&n.scratch, n.nodeFor(p), n.claims.beside(&n.facts, p, o), p.asked.request())
		if !refusal.OK() {
			n.refuse(c, refusal)
			return
		}
		n.grant(c, &d, o)
		return
	}
	others := n.claims.without(p)
	beside := n.claims.beside(&n.facts, p, &others)
	f := grant.Refit{Scratch: &n.scratch, Node: n.nodeFor(p), Others: beside, Leaving: p.has.grant.Beside, Ask: p.asked.request()}
	d, refusal := f.Keep(p.has.grant.Parts)
	if !refusal.OK() && !p.asked.resized && c.cause != "" {
		// It lost CPUs and cannot have others beside its remaining ones: find a whole new set.
		again, no := placement.Decide(&n.scratch, f.Node, beside, p.asked.request())
		if no.OK() && f.Node.LeavesCore(&others, again.Answer.Occupied.Union(p.has.grant.Beside)) {
			d, refusal = again, no
		}
	}
	if !refusal.OK() {
		n.fall(c, refusal)
		return
	}
	*o = others
	n.grant(c, &d, o)
}

// nodeFor returns the node as a decision about the pod needs it, without the requests of the pod.
func (n *Node) nodeFor(p *pod) placement.Node {
	node := n.claims.requested
	node.Policy, node.AllocatableMilli = n.facts.Policy, n.facts.AllocatableMilli
	if counts(p) {
		count(&node, p, -1)
	}
	return node
}

// counts reports whether the requests of a pod count on this node.
func counts(p *pod) bool { return p.known && !p.over() }

// count adds the requests of the pod to a node, multiplied by times.
func count(node *placement.Node, p *pod, times int64) {
	node.RequestedMilli += p.spec.Scheduled * times
	node.RequestedMemory += p.spec.ScheduledMemory * times
	node.RequestedHuge.Add(p.spec.ScheduledHuge, times)
	if node.Machine == nil {
		return
	}
	for k, devices := range placement.CountDevices(node.Machine.Topology(), p.spec.Devices) {
		node.RequestedDevices[k] += devices * times
	}
}

// beside returns what others than the pod hold, with the memory that the kubelet gave to pods without a placement. The
// placement of a pod already says which memory it has, and the pod's own memory is not beside it.
func (s *claims) beside(f *Facts, p *pod, held *placement.Occupancy) *placement.Occupancy {
	if len(s.given) == 0 {
		return held
	}
	all := held.Clone()
	for _, other := range s.given {
		if other != p && other.has.grant == nil {
			all.AddGiven(f.Given[other.name])
		}
	}
	return &all
}

// without adds up what all pods hold except p.
func (s *claims) without(p *pod) placement.Occupancy {
	var o placement.Occupancy
	for _, c := range s.all {
		if c.pod != p && c.pod.has.grant != nil {
			o.Add(c.pod.has.grant.Machine, &c.pod.has.grant.Held)
		}
	}
	return o
}

func (n *Node) grant(c *claim, d *placement.Decision, o *placement.Occupancy) {
	p := c.pod
	g := grant.Of(d, p.asked.request(), n.facts.Machine, n.facts.Hash)
	if p.has.grant != nil {
		for name, one := range g.Parts {
			g.Parts[name] = one.After(p.has.grant.Parts[name])
		}
		g = g.Leaving(p.has.grant.Beside)
	}
	p.has.grant, p.has.before = g, nil
	setPooled(p, false)
	o.Add(g.Machine, &g.Held)
	if c.cause != "" {
		n.reports.report(p, c.reason, true, sentence(c.reason, c.cause)+"; now "+g.List()+", "+g.From.String())
	}
	n.reports.writeBack(p)
}

// mostWait bounds how long a pod waits for pods that leave.
const mostWait = 30 * time.Second

// waitsForLeavers reports whether a pod without containers will have room once the pods that leave have ended, and has
// not yet waited for mostWait.
func (n *Node) waitsForLeavers(p *pod) bool {
	if p.began() || p.has.until > 0 && n.now >= p.has.until {
		return false
	}
	leave := false
	var o placement.Occupancy
	for _, c := range n.claims.all {
		switch {
		case c.pod.has.grant == nil:
		case c.pod.leaves():
			leave = true
		default:
			o.Add(c.pod.has.grant.Machine, &c.pod.has.grant.Held)
		}
	}
	if !leave {
		return false
	}
	node := n.nodeFor(p)
	for _, other := range n.Pods.pods {
		if other.known && other.leaves() {
			count(&node, other, -1)
		}
	}
	_, refusal := placement.Decide(&n.scratch, node, n.claims.beside(&n.facts, p, &o), p.asked.request())
	return refusal.OK()
}

func (n *Node) refuse(c *claim, refusal placement.Refusal) {
	p := c.pod
	p.has.denied, p.has.word, p.has.wait = refusal.Detail(), refusal.Word(), p.asked.pin.Required()
	if p.has.behind = n.waitsForLeavers(p); p.has.behind {
		p.has.denied += "; CPUs of a pod that is gone are free once its containers are"
		return
	}
	text := p.has.denied
	setPooled(p, true)
	if c.cause != "" {
		text = sentence(c.reason, c.cause) + "; no others: " + p.has.denied
	}
	end := "; it runs in the shared pool"
	if p.has.wait && !p.began() {
		end = "; its containers wait, as it requires them"
	}
	n.reports.report(p, v1alpha1.EventPlacementRefused, true, text+end)
	n.reports.takeBack(p)
}

// fall leaves a pod its present CPUs when its desired number of CPUs is not possible.
func (n *Node) fall(c *claim, refusal placement.Refusal) {
	p := c.pod
	text := "CPUs are missing: " + refusal.Detail()
	switch {
	case p.asked.resized, p.asked.pin.Change.Changed && c.cause == "": // after a restart it is not known whether it was resized
		text = n.postpone(p, refusal)
	case c.cause != "":
		text = sentence(c.reason, c.cause) + "; no others: " + refusal.Detail()
	}
	n.reports.report(p, v1alpha1.EventCPUPinFailed, true, text+"; it keeps "+p.has.grant.List())
}

func sentence(reason, cause string) string {
	if reason == v1alpha1.EventPlacementRefused {
		return "the placement cannot be followed: " + cause
	}
	return cause
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
