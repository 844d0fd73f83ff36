package place

import (
	"fmt"
	"slices"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/grant"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// asksToMove reports whether a move of the pod waits for an answer.
func (p *pod) asksToMove() bool { return p.known && p.asked.next.Change.Move.Asked() }

// underWay reports whether the pod is being moved: it may still be on the old CPUs, or the move to its present CPUs was
// not reported as done.
func (p *pod) underWay() bool {
	return p.has.grant != nil && (!p.has.grant.Beside.IsEmpty() || p.asksToMove() && p.has.grant.Own() == p.asked.next.Change.Move.To || p.torn())
}

// torn reports whether the pod has some old and some new CPUs of its move: an agent that began the move ended in the
// middle.
func (p *pod) torn() bool {
	if !p.asksToMove() || p.has.grant == nil || !p.has.grant.Beside.IsEmpty() || p.spec.Claims || p.asked.pin.StaticBurst {
		return false
	}
	m, own := p.asked.next.Change.Move, p.has.grant.Own()
	return own != m.From && own != m.To && m.Between(own)
}

// arrive takes the old CPUs from pods whose containers were all seen on the new CPUs.
func (r *reports) arrive(all []*pod) {
	for _, p := range all {
		if p.has.grant != nil && !p.has.grant.Beside.IsEmpty() && p.hasLeft(p.has.grant.Beside) {
			// It may lack CPUs that went offline since then, and CPUs from a resize in the move are not written yet.
			p.has.grant, p.has.before, p.pending = p.has.grant.Arrived(p.asked.pin), nil, true
			r.writeBack(p)
		}
	}
}

// resizedInMove reports whether a pod in a move has more or fewer CPUs than its move gave it, and may be on the old
// ones. Its placement is not written then: a reader of a placement with as many CPUs as the move also counts the old
// CPUs.
func (p *pod) resizedInMove() bool {
	return !p.has.grant.Beside.IsEmpty() && p.asksToMove() && !p.asked.next.Change.Move.Between(p.has.grant.Own())
}

// hasLeft reports whether no container of the pod is on these CPUs, as far as seen since.
func (p *pod) hasLeft(cpus cpuset.Set) bool {
	for _, c := range p.containers {
		if !c.live() || c.Sandbox || p.kind(c) == other {
			continue
		}
		if c.CPUs.IsEmpty() || c.CPUs.Intersects(cpus) || c.Phase == observed.Running && !c.verified {
			return false
		}
	}
	return true
}

// moveOne answers the requested moves, and begins one if none is under way. o is what all pods hold. In an answer to
// the runtime no move begins: other containers may still be on the CPUs that they leave in the same answer.
func (n *Node) moveOne(all []*pod, o *placement.Occupancy) {
	if n.answering {
		n.Pods.stale = slices.ContainsFunc(all, (*pod).asksToMove)
		return
	}
	busy := slices.ContainsFunc(all, (*pod).underWay)
	for _, p := range all {
		n.reports.forgetAnswer(p)
		if !p.asksToMove() || !p.real() {
			continue
		}
		switch m := p.asked.next.Change.Move; {
		case p.torn():
			n.mend(p, o)
		case p.canTurn():
			n.reports.turnBack(p)
		case p.underWay():
			n.reports.finish(p)
		case m.Withdrawn:
			n.reports.answerMove(p, "")
		case !busy:
			why := n.begin(p, m.To, o)
			if busy = why == ""; !busy {
				n.reports.answerMove(p, why)
			}
		}
	}
}

// begin moves the pod to CPUs, or returns why not.
func (n *Node) begin(p *pod, to cpuset.Set, o *placement.Occupancy) string {
	g, others, why := moved(n, p, to)
	if why == "" {
		others.Add(g.Machine, &g.Held)
		p.has.before, p.has.grant, *o = p.has.grant, g, others
		n.reports.writeBack(p)
	}
	return why
}

// mend reunites a torn pod: on the new CPUs, else on the old ones.
func (n *Node) mend(p *pod, o *placement.Occupancy) {
	why := n.begin(p, p.asked.next.Change.Move.To, o)
	if why != "" && n.begin(p, p.asked.next.Change.Move.From, o) != "" {
		n.reports.answerMove(p, fmt.Sprintf("%s: the pod has CPUs %s, some of both", why, p.has.grant.Own()))
	}
}

// canTurn reports whether a move that began and was withdrawn can go back: no container was seen, or answered, to be on
// the new CPUs.
func (p *pod) canTurn() bool {
	m := p.asked.next.Change.Move
	if p.has.before == nil || !m.Withdrawn || p.has.grant.Own() != m.To || p.has.before.Own() != m.From || p.has.before.Machine != p.has.grant.Machine {
		return false
	}
	fresh := m.To.Difference(m.From)
	return !slices.ContainsFunc(p.containers, func(c *container) bool { return c.live() && !c.Sandbox && c.CPUs.Intersects(fresh) })
}

// turnBack gives the pod its CPUs from before the move. A container may have come to the new CPUs since it was last
// seen: the pod keeps them until all containers were seen again.
func (r *reports) turnBack(p *pod) {
	p.has.grant, p.has.before = p.has.before.Leaving(p.has.grant.Own()), nil
	for _, c := range p.containers {
		c.verified = false
	}
	r.writeBack(p)
}

// finish reports the move as done, once the pod was seen on its CPUs and the API server shows the placement: readers of
// the placement then need no move to count the CPUs.
func (r *reports) finish(p *pod) {
	if p.has.grant.Beside.IsEmpty() && p.has.grant.Says(p.spec.Annotations[v1alpha1.AnnotationPlacement]) {
		r.answerMove(p, "")
	}
}

// moved returns the grant of the pod after its move and what all others hold, or why the pod is not moved.
func moved(n *Node, p *pod, to cpuset.Set) (*grant.Grant, placement.Occupancy, string) {
	m := p.asked.next.Change.Move
	if why := p.unmovable(); why != "" {
		return nil, placement.Occupancy{}, why
	}
	others, node, ask := n.claims.without(p), n.nodeFor(p), p.asked.request()
	beside := n.claims.beside(&n.facts, p, &others)
	if shared := others.Taken.CPUs().Intersect(to); !shared.IsEmpty() {
		return nil, others, fmt.Sprintf("CPUs %s belong to another pod", shared)
	}
	was, no := placement.ConfirmTogether(&n.scratch, node, beside, ask, m.From)
	if !no.OK() {
		return nil, others, "it may not have its own CPUs: " + no.Detail()
	}
	d, no := placement.ConfirmTogether(&n.scratch, node, beside, ask, to)
	switch {
	case !no.OK():
		return nil, others, no.Detail()
	case d.WorseThan(&was, ask):
		return nil, others, "it would be worse off than on CPUs " + m.From.String()
	case !node.LeavesCore(&others, d.Answer.Occupied.Union(p.has.grant.Occupied)):
		return nil, others, "no whole core would be left for the shared pool while it has CPUs " + m.From.Union(m.To).String()
	}
	if p.has.grant.Exchanges(&p.asked.pin, &d) {
		each := p.has.grant.KeepEach(&p.asked.pin, to)
		if d, no = placement.Confirm(&n.scratch, node, beside, ask, each); !no.OK() || d.WorseThan(&was, ask) {
			return nil, others, "its containers would have to exchange CPUs"
		}
	}
	g := grant.Of(&d, ask, n.facts.Machine, n.facts.Hash)
	g.From = grant.ByMove
	for name, one := range g.Parts {
		g.Parts[name] = one.Beside(p.has.grant.Parts[name])
	}
	return g.On(n.facts.Machine, p.asked.pin).Leaving(p.has.grant.Own().Union(p.has.grant.Beside)), others, ""
}

// unmovable returns why the pod cannot be moved now, or "".
func (p *pod) unmovable() string {
	m := p.asked.next.Change.Move
	switch {
	case p.gone || p.spec.Ended:
		return "the pod ends"
	case p.has.grant == nil || !p.asks():
		return "the pod has no exclusive CPUs"
	case !p.asked.next.Change.Movable && !p.torn():
		return "the pod is not movable: annotation " + v1alpha1.AnnotationMovable + ` is not "true", or it has claims or static-burst`
	case p.has.grant.Own() != m.From && !m.Between(p.has.grant.Own()): // after a resize in the middle of its move
		return fmt.Sprintf("the pod has CPUs %s, not %s", p.has.grant.Own(), m.From)
	case p.spec.Resizing || p.spec.Held() || p.asked.putOff != nil || p.asked.halfway || !p.full():
		return "the pod is being resized"
	case m.From.Size() != m.To.Size():
		return fmt.Sprintf("CPUs %s are not as many as %s", m.To, m.From)
	}
	return ""
}

// answerMove reports the answer to the move of a pod once: the move is done, or why it did not begin. It waits until
// the API server shows the placement that was written last.
func (r *reports) answerMove(p *pod, why string) {
	r.compareWritten(p)
	if p.told.answered == p.asked.next.Change.Move.Text || r.writes(p) {
		return
	}
	p.told.answered = p.asked.next.Change.Move.Text
	e := Event{PodUID: p.uid, Answered: true}
	if why != "" {
		m, _ := v1alpha1.DecodeMove(p.asked.next.Change.Move.Text)
		m.Refused = why
		e.Refused = &m
	}
	r.events = append(r.events, e)
}

// writes reports whether a placement of the pod is on its way to the API server. A placement that another writer
// replaces again and again is not.
func (*reports) writes(p *pod) bool {
	text, last := p.spec.Annotations[v1alpha1.AnnotationPlacement], p.told.reported[""]
	sent := p.has.grant != nil && last != "" && last != removed && last != text
	return sent && (text == "" || text != p.told.foreign) && !p.has.grant.Says(text)
}

// forgetAnswer forgets the answer once its move is gone.
func (r *reports) forgetAnswer(p *pod) {
	if p.asked.next.Change.Move == nil || p.told.answered != p.asked.next.Change.Move.Text {
		p.told.answered = ""
	}
}
