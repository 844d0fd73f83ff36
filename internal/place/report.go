package place

import (
	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/grant"
	"github.com/berth-project/berth/internal/placement"
)

// reports are what the Node has to report, and what it compares that with.
type reports struct {
	facts  *Facts
	events []Event
	// overcommitted is the text of the last event about the shared pool.
	overcommitted string
}

// real says that the API server or the kubelet reported the pod, and so what it asks for.
// The Node reports and writes nothing of a provisional pod: what it has is a guess.
func (p *pod) real() bool { return p.known && !p.spec.Provisional }

// report notes an event about a pod, unless its text is that of the last one with the same
// reason. It returns the event, nil for none, which counts until the next one.
func (r *reports) report(p *pod, reason string, warning bool, text string) *Event {
	if p.reported[reason] == text || !p.real() {
		return nil
	}
	p.reported[reason] = text
	r.events = append(r.events, Event{PodUID: p.uid, Reason: reason, Text: text, Warning: warning})
	return &r.events[len(r.events)-1]
}

// writeBack notes the placement of a pod, to be written.
func (r *reports) writeBack(p *pod) {
	if !p.real() || p.grant == nil || p.resizedInMove() {
		return
	}
	decided := p.grant.Placement(r.facts.Machine, r.facts.Hash)
	text := decided.Encode()
	if p.reported[""] == text {
		return
	}
	p.reported[""] = text
	if last := len(r.events) - 1; last >= 0 && r.events[last].PodUID == p.uid && r.events[last].Reason != "" && r.events[last].Annotation == nil {
		r.events[last].Annotation = &decided
		return
	}
	r.events = append(r.events, Event{PodUID: p.uid, Annotation: &decided})
}

// removed is in pod.reported, instead of the annotation, once its removal was noted.
const removed = "-"

// takeBack notes that the pod has nothing of what its placement says, so that the agent
// removes the placement. It does so once: a writer that sets it again means it.
func (r *reports) takeBack(p *pod) {
	if !p.real() || p.spec.Annotations[v1alpha1.AnnotationPlacement] == "" || p.reported[""] == removed {
		return
	}
	p.reported[""] = removed
	r.events = append(r.events, Event{PodUID: p.uid, Unplaced: true})
}

// examineAll reports what is to say of pods after a decision: what is wrong with their
// keys, which annotations differ from what they have, and which run on their CPUs.
func (r *reports) examineAll(all []*pod) {
	for _, p := range all {
		r.examine(p)
		r.compareWritten(p)
		r.confirm(p)
	}
}

// overcommit reports that the shared pool is overcommitted, when that begins; text is
// empty where it is not.
func (r *reports) overcommit(text string) {
	if text != "" && r.overcommitted == "" {
		r.events = append(r.events, Event{Reason: v1alpha1.EventSharedPoolOvercommitted, Text: text, Warning: true})
	}
	r.overcommitted = text
}

// close reports to pods that ask that Berth pins nothing here.
func (n *Node) close(all []*pod) {
	reason := n.facts.Reason
	if n.facts.Pinnable {
		reason = "its CPUs are not known"
	}
	for _, p := range all {
		n.examine(p)
		if p.asks() && p.grant == nil {
			p.denied, p.word = placement.TextUnpinnable(reason), "NotPinnable"
			if e := n.report(p, v1alpha1.EventPlacementRefused, true, p.denied); e != nil {
				e.Unpinnable = true
			}
		}
		if p.asksToMove() && p.next.Move.Withdrawn {
			n.answerMove(p, "")
		}
		p.pending, p.behind, p.wait = true, false, false
		for _, c := range p.containers {
			c.pooled = c.sharing() // another program may have set its CPUs since it was refused
		}
	}
}

// examine reports what is wrong with the keys of the pod, whatever room there is.
func (r *reports) examine(p *pod) {
	if !p.known || p.spec.Ended {
		return
	}
	if text := p.pin.UnknownText(); text != "" && p.late == "" {
		r.report(p, v1alpha1.EventInvalidPolicy, true, text)
	}
	if p.late != "" {
		r.report(p, v1alpha1.EventInvalidPolicy, true, p.late+": changed after the pod was created, which has no effect: only allowed when the pod is created")
	}
	if len(p.problems) > 0 && p.grant == nil {
		r.report(p, v1alpha1.EventInvalidPolicy, true, "no CPUs are pinned for this pod: "+p.problems.Line())
	}
	if p.grant != nil || p.asks() {
		return
	}
	why := p.unfit()
	if why == "" {
		return
	}
	// A rule may be lifted, or let the pod once others have ended; all else never changes.
	p.denied, p.word, p.wait = why, "Rules", p.spec.Excluded.KeepsOwn && p.pin.Required()
	r.report(p, v1alpha1.EventPlacementRefused, true, p.denied)
	if !p.pin.Wanted || p.spec.Excluded.Why != "" {
		r.takeBack(p)
	}
}

// unfit says why a pod that does not ask, or asks for what Berth does not support, gets
// nothing, "" where its user expects nothing.
func (p *pod) unfit() string {
	switch {
	case p.pin.Wanted && p.spec.Excluded.Why != "":
		return p.spec.Excluded.Why
	case p.spec.Annotations[v1alpha1.AnnotationPlacement] != "" && len(p.problems) == 0:
		return "the pod has a placement and does not ask for exclusive CPUs"
	}
	return ""
}

// confirm reports that a pod runs on its CPUs, once Observe has shown that it does.
func (r *reports) confirm(p *pod) {
	if p.grant == nil || !p.real() || p.confirmed == p.grant {
		return
	}
	seen := false
	for _, c := range p.containers {
		one, found := p.grant.Parts[c.Name]
		if !found || c.Phase != Running {
			continue
		}
		if !c.verified || p.ownOf(p.grant, c, c.CPUs) != one.CPUs {
			return
		}
		seen = true
	}
	if !seen {
		return
	}
	p.confirmed = p.grant
	var mems cpuset.Set
	for _, one := range p.grant.Parts {
		mems = mems.Union(r.facts.memsOf(one))
	}
	text := p.grant.List()
	if !mems.IsEmpty() {
		text += "; memory of NUMA nodes " + mems.String()
	}
	r.report(p, v1alpha1.EventCPUPinned, false, text+" ("+p.grant.From.String()+")")
}

// compareWritten has the annotation put right where it differs from what the pod has, and
// reports one that another writer changed meanwhile.
func (r *reports) compareWritten(p *pod) {
	text := p.spec.Annotations[v1alpha1.AnnotationPlacement]
	if p.grant == nil || !p.real() || p.looked && text == p.written {
		return
	}
	first := !p.looked
	p.looked, p.written = true, text
	placed, problems := v1alpha1.DecodePlacement(text)
	if len(problems) == 0 && p.grant.Says(&placed) || p.resizedInMove() {
		return
	}
	if first && p.grant.From == grant.ByAgent || text != "" && text == p.foreign || !p.full() {
		return // put right already; or another writer set it twice; or CPUs are missing
	}
	if !first {
		p.foreign = text
		r.report(p, v1alpha1.EventPlacementRefused, true, "the placement was changed, which has no effect: the pod has "+p.grant.List())
	}
	delete(p.reported, "")
	r.writeBack(p)
}
