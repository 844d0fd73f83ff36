package place

import (
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/placement"
)

// placeAll finds CPUs for the pods that ask and lack some, in the order of their
// claims.
func (n *Node) placeAll(claims []*claim, o *placement.Occupancy) {
	for _, c := range claims {
		t := c.t
		t.behind = false
		if t.pending && t.asks() && !t.full() {
			n.place(c, claims, o)
		} else if t.pending && c.cause != "" && !t.asks() {
			n.lost(c)
		}
		if t.full() || t.grant != nil && !t.asks() {
			t.denied, t.wait, t.since = "", false, time.Time{}
		}
		// One that waits is looked at whenever anything changes.
		t.pending, t.resized = t.behind, nil
	}
}

// full says whether every container has as many CPUs as it should.
func (t *tenant) full() bool {
	if t.grant == nil {
		return false
	}
	for _, c := range t.pin.Pinned {
		if t.grant.parts[c.Name].cpus.Size() != c.CPUs {
			return false
		}
	}
	return true
}

// place finds CPUs for one pod. What it has it keeps if that is possible at all.
func (n *Node) place(c *claim, claims []*claim, o *placement.Occupancy) {
	t := c.t
	if t.grant == nil {
		d, refusal := placement.Decide(&n.scratch, n.nodeFor(t), o, t.request())
		if !refusal.OK() {
			n.refuse(c, claims, refusal)
			return
		}
		n.grant(c, &d, o)
		return
	}
	others := n.without(t, claims)
	k := keeper{scratch: &n.scratch, node: n.nodeFor(t), others: &others, ask: t.request()}
	d, refusal := keep(k, t.grant.parts)
	if !refusal.OK() && t.resized == nil && c.cause != "" {
		// It lost CPUs and cannot have others beside the rest: a whole new set.
		if again, no := placement.Decide(&n.scratch, n.nodeFor(t), &others, t.request()); no.OK() {
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

// nodeFor is the node as a decision about the pod needs it.
func (n *Node) nodeFor(t *tenant) placement.Node {
	node := placement.Node{Machine: n.facts.Machine, Policy: n.facts.Policy, AllocatableMilli: n.facts.AllocatableMilli}
	for _, other := range n.tenants {
		if other != t && other.known && !other.over() {
			node.RequestedMilli += other.pod.Scheduled
			node.RequestedMemory += other.pod.ScheduledMemory
		}
	}
	return node
}

// without adds up what all but one hold.
func (n *Node) without(t *tenant, claims []*claim) placement.Occupancy {
	var o placement.Occupancy
	for _, c := range claims {
		if c.t != t && c.t.grant != nil {
			o.Add(c.t.grant.machine, &c.t.grant.held)
		}
	}
	return o
}

// grant gives a pod what was decided.
func (n *Node) grant(c *claim, d *placement.Decision, o *placement.Occupancy) {
	t := c.t
	g := grantOf(d, t.request(), &n.facts)
	t.grant = g
	o.Add(g.machine, &g.held)
	if c.cause != "" {
		n.tell(t, c.reason, true, sentence(c.reason, c.cause)+"; now "+g.list()+", "+g.from.String())
	}
	n.writeBack(t)
}

// mostWait bounds how long a pod waits for others that leave.
const mostWait = 30 * time.Second

// waitsForLeavers says whether a pod that nobody made a container of yet has room once
// those that leave are through with it, and did not wait for that too long.
func (n *Node) waitsForLeavers(t *tenant, claims []*claim) bool {
	if t.began() || !t.since.IsZero() && n.now.Sub(t.since) >= mostWait {
		return false
	}
	leave := false
	var o placement.Occupancy
	for _, c := range claims {
		switch {
		case c.t.grant == nil:
		case c.t.leaves():
			leave = true
		default:
			o.Add(c.t.grant.machine, &c.t.grant.held)
		}
	}
	if !leave {
		return false
	}
	node := n.nodeFor(t)
	for _, other := range n.tenants {
		if other.known && other.leaves() {
			node.RequestedMilli -= other.pod.Scheduled
			node.RequestedMemory -= other.pod.ScheduledMemory
		}
	}
	_, refusal := placement.Decide(&n.scratch, node, &o, t.request())
	return refusal.OK()
}

// refuse leaves a pod without CPUs of its own.
func (n *Node) refuse(c *claim, claims []*claim, refusal placement.Refusal) {
	t := c.t
	t.denied, t.wait = refusal.Detail(), Required(t.pin)
	if t.behind = n.waitsForLeavers(t, claims); t.behind {
		t.denied += "; CPUs of a pod that is gone are free once its containers are"
		return
	}
	text := t.denied
	if c.cause != "" {
		text = sentence(c.reason, c.cause) + "; no others: " + t.denied
	}
	end := "; it runs in the shared pool"
	if t.wait && !t.began() {
		end = "; its containers wait, as it requires them"
	}
	n.tell(t, v1alpha1.EventPlacementRefused, true, text+end)
	n.takeBack(t)
}

// fall keeps what a pod has, where it was to have more, or fewer.
func (n *Node) fall(c *claim, refusal placement.Refusal) {
	t := c.t
	text := "the new limits cannot be followed: " + refusal.Detail()
	if t.resized != nil {
		t.pin, t.ask = *t.resized, nil
	} else {
		text = "CPUs are missing: " + refusal.Detail()
		if c.cause != "" {
			text = sentence(c.reason, c.cause) + "; no others: " + refusal.Detail()
		}
	}
	n.tell(t, v1alpha1.EventCPUPinFailed, true, text+"; it keeps "+t.grant.list())
}

// lost tells that a pod which asks for nothing lost what it had.
func (n *Node) lost(c *claim) {
	if c.t.known {
		n.tell(c.t, c.reason, true, sentence(c.reason, c.cause))
	}
}

func sentence(reason, cause string) string {
	if reason == v1alpha1.EventPlacementRefused {
		return "the placement cannot be followed: " + cause
	}
	return cause
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
