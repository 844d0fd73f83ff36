package place

import (
	"slices"

	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

// Desired returns the desired state of every container that is not stopped, in the order of pods (scheduled earlier,
// then lower UID), names and ids. It is empty if no pod is pinned and offline work has no cores of its own, and if
// Facts.Pinnable is false. The list belongs to the Node; the caller must not change it. While nothing changes, Desired
// returns the same list.
func (n *Node) Desired() []Desired {
	n.settle()
	if !n.outcome.open || n.outcome.idle() || n.outcome.listed != nil {
		return n.outcome.listed
	}
	n.outcome.listed = make([]Desired, 0, len(n.Pods.where))
	n.Pods.each(func(p *pod, c *container) {
		if d, found := n.outcome.desired(p, c); found {
			n.outcome.listed = append(n.outcome.listed, d)
		}
	})
	return n.outcome.listed
}

// DesiredFor returns the desired state of one container, without computing all others. It is part of an answer to the
// runtime.
func (n *Node) DesiredFor(id string) (d Desired, found bool) {
	n.settleToAnswer()
	if p := n.Pods.where[id]; p != nil {
		if i := slices.IndexFunc(p.containers, func(c *container) bool { return c.ID == id }); i >= 0 {
			return n.outcome.desired(p, p.containers[i])
		}
	}
	return Desired{}, false
}

// DesiredPods returns the desired state of the groups of pods, in the order of Desired.
func (n *Node) DesiredPods() []DesiredPod {
	n.settle()
	if !n.outcome.open {
		return nil
	}
	var desired []DesiredPod
	for _, p := range n.Pods.sorted() {
		if p.has.grant != nil && !p.borrows() {
			desired = append(desired, DesiredPod{
				PodUID: p.uid, NoQuota: true, Serves: p.key(), Why: "its containers " + p.has.grant.List() + " have exclusive CPUs",
			})
		}
	}
	return desired
}

// Pool returns the shared pool: the CPUs of all containers without exclusive CPUs, offline work included.
func (n *Node) Pool() cpuset.Set {
	n.settle()
	return n.outcome.pool.All
}

// Exclusive returns the CPUs that pods keep out of the shared pool: their exclusive CPUs, and siblings that stay empty.
func (n *Node) Exclusive() cpuset.Set {
	n.settle()
	return n.outcome.pool.Taken
}

// Events returns the events and annotations since the last call.
func (n *Node) Events() []Event {
	n.settle()
	events := n.reports.events
	n.reports.events = nil
	return events
}

// each visits all containers in the order of pods, then names and ids.
func (ps *Pods) each(visit func(p *pod, c *container)) {
	for _, p := range ps.sorted() {
		for _, c := range p.containers {
			visit(p, c)
		}
	}
}

// desired returns the desired state of a container, if there is one.
func (o *outcome) desired(p *pod, c *container) (Desired, bool) {
	d := Desired{ContainerID: c.ID, PodUID: p.uid, Container: c.Name}
	if !o.open || o.untouched(p) || !c.live() {
		return d, false
	}
	if p.has.grant != nil && o.granted(&d, p, c) {
		return d, true
	}
	d.CPUs, d.Offline = o.poolFor(p, c), p.spec.Offline && o.pool.Restricts(true)
	d.Serves, d.Why = o.serves(p), o.why
	if d.Offline {
		d.Why = o.pool.Part() + ", " + o.cores.Why
		if d.Bound = !d.CPUs.Intersects(o.pool.Side(true)); d.Bound {
			d.Why = "it is bound to CPUs " + d.CPUs.String() + ", outside the CPUs that offline work has: Berth never widens a bound container"
		}
	}
	if why, _ := p.refused(c); why != "" {
		d.Why += "; no exclusive CPUs: " + why
	}
	return d, true
}

// granted fills in d from the pod's grant, or returns false if the grant has nothing for the container.
func (o *outcome) granted(d *Desired, p *pod, c *container) bool {
	if one, found := p.has.grant.Parts[c.Name]; found && !c.Sandbox {
		d.CPUs, d.Mems, d.Pinned, d.NoQuota, d.Serves = one.CPUs, o.facts.memsOf(one), true, true, p.key()
		d.Why = "exclusive CPUs, " + p.has.grant.From.String()
		if p.borrows() {
			d.Borrowed, d.NoQuota, d.Why = p.lent(c.Name).CPUs, false, p.burstWhy(c.Name)
			d.CPUs = d.CPUs.Union(d.Borrowed)
		}
		if p.asked.putOff != nil {
			d.Why += "; " + p.asked.putOff.why
		}
		d.Why += p.has.memoryWhy(c.Name, d.Mems)
		if o.facts.MemsOwner != "" {
			d.Why += "; " + o.facts.MemsOwner
		}
		return true
	}
	if one := p.apps(p.has.grant.Parts); p.kind(c) == initial && !one.CPUs.IsEmpty() {
		d.CPUs, d.Mems, d.Pinned, d.Serves = one.CPUs, o.facts.memsOf(one), true, p.key()
		d.Why = "it ends before the containers start whose CPUs it has"
		return true
	}
	return false
}

// refused returns why a container lacks the exclusive CPUs that its pod asks for, as text and as one word.
func (p *pod) refused(c *container) (why, word string) {
	switch kind := p.kind(c); {
	case c.Sandbox || kind != app && kind != sidecar:
		return "", ""
	case p.has.denied == "" && p.has.grant == nil && len(p.asked.problems) > 0:
		return p.asked.problems.Line(), "InvalidPolicy"
	}
	return p.has.denied, p.has.word
}

// sharedWhy returns the reason why a container has the CPUs of the shared pool.
func (o *outcome) sharedWhy() string {
	switch {
	case o.idle():
		return ""
	case o.first == nil:
		return "the shared pool, while offline work has cores of its own"
	}
	why := "the shared pool, while " + o.first.key()
	if o.pinned == 1 {
		why += " has exclusive CPUs"
	} else {
		why += " and " + unit.Count(o.pinned-1, "other") + " have exclusive CPUs"
	}
	if o.pool.Divided() {
		why += ", and offline work cores of its own"
	}
	return why
}
