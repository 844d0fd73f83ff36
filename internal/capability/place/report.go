package place

import (
	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/grant"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// reports are the events of the Node, and the state that it compares for them.
type reports struct {
	facts  *Facts
	events []Event
	// overcommitted is the text of the last event about the shared pool.
	overcommitted string
}

// real reports whether the API server or the kubelet reported the pod, and so what it asks for. The Node reports and
// writes nothing for a provisional pod: its CPUs are a guess.
func (p *pod) real() bool { return p.known && !p.spec.Provisional }

// report adds an event about a pod, unless the last event with the same reason has the same text. It returns the event,
// or nil; the pointer is valid until the next event.
func (r *reports) report(p *pod, reason string, warning bool, text string) *Event {
	if p.told.reported[reason] == text || !p.real() {
		return nil
	}
	p.told.reported[reason] = text
	r.events = append(r.events, Event{PodUID: p.uid, Reason: reason, Text: text, Warning: warning})
	return &r.events[len(r.events)-1]
}

// lost reports that a pod which does not ask for CPUs lost the CPUs that it had.
func (r *reports) lost(c *claim) {
	if c.pod.known {
		r.report(c.pod, c.reason, true, sentence(c.reason, c.cause))
	}
}

// writeBack schedules the placement of a pod to be written.
func (r *reports) writeBack(p *pod) {
	if !p.real() || p.has.grant == nil || p.resizedInMove() {
		return
	}
	decided := p.has.grant.Placement(r.facts.Machine, r.facts.Hash)
	text := decided.Encode()
	if p.told.reported[""] == text {
		return
	}
	p.told.reported[""] = text
	if last := len(r.events) - 1; last >= 0 && r.events[last].PodUID == p.uid && r.events[last].Reason != "" && r.events[last].Annotation == nil {
		r.events[last].Annotation = &decided
		return
	}
	r.events = append(r.events, Event{PodUID: p.uid, Annotation: &decided})
}

// removed replaces the annotation in pod.reported once its removal was scheduled.
const removed = "-"

// takeBack reports that the pod has nothing of its placement, so that the agent removes the placement. It does so once:
// a writer that sets it again intends it.
func (r *reports) takeBack(p *pod) {
	if !p.real() || p.spec.Annotations[v1alpha1.AnnotationPlacement] == "" || p.told.reported[""] == removed {
		return
	}
	p.told.reported[""] = removed
	r.events = append(r.events, Event{PodUID: p.uid, Unplaced: true})
}

// examineAll reports about all pods after a decision: what is wrong with their keys, which annotations differ from
// their grants, and which pods run on their CPUs.
func (r *reports) examineAll(all []*pod) {
	for _, p := range all {
		r.examine(p)
		r.compareWritten(p)
		r.confirm(p)
	}
}

// overcommit reports that the shared pool is overcommitted, when that begins. The text is empty if it is not.
func (r *reports) overcommit(text string) {
	if text != "" && r.overcommitted == "" {
		r.events = append(r.events, Event{Reason: v1alpha1.EventSharedPoolOvercommitted, Text: text, Warning: true})
	}
	r.overcommitted = text
}

// close reports to all pods that ask that Berth pins nothing here.
func (n *Node) close(all []*pod) {
	reason := n.facts.Reason
	if n.facts.Pinnable {
		reason = "its CPUs are not known"
	}
	for _, p := range all {
		n.reports.examine(p)
		if p.asks() && p.has.grant == nil {
			p.has.denied, p.has.word = placement.TextUnpinnable(reason), "NotPinnable"
			if e := n.reports.report(p, v1alpha1.EventPlacementRefused, true, p.has.denied); e != nil {
				e.Unpinnable = true
			}
		}
		if p.asksToMove() && p.asked.next.Change.Move.Withdrawn {
			n.reports.answerMove(p, "")
		}
		p.pending, p.has.behind, p.has.wait = true, false, false
		for _, c := range p.containers {
			c.pooled = c.Sharing() // another program may have set its CPUs since then
		}
	}
}

// examine reports what is wrong with the keys of the pod, independent of room.
func (r *reports) examine(p *pod) {
	if !p.known || p.spec.Ended {
		return
	}
	if text := p.asked.pin.UnknownText(); text != "" && p.asked.late == "" {
		r.report(p, v1alpha1.EventInvalidPolicy, true, text)
	}
	if p.asked.late != "" {
		r.report(p, v1alpha1.EventInvalidPolicy, true, p.asked.late+": changed after the pod was created, which has no effect: only allowed when the pod is created")
	}
	if len(p.asked.problems) > 0 && p.has.grant == nil {
		r.report(p, v1alpha1.EventInvalidPolicy, true, "no CPUs are pinned for this pod: "+p.asked.problems.Line())
	}
	if p.has.grant != nil || p.asks() {
		return
	}
	why := p.unfit()
	if why == "" {
		return
	}
	// A rule may be lifted, or may admit the pod once others have ended; all other reasons are permanent.
	p.has.denied, p.has.word, p.has.wait = why, "Rules", p.spec.Excluded.KeepsOwn && p.asked.pin.Required()
	r.report(p, v1alpha1.EventPlacementRefused, true, p.has.denied)
	if !p.asked.pin.Wanted || p.spec.Excluded.Why != "" {
		r.takeBack(p)
	}
}

// unfit returns why a pod gets nothing: it is excluded, or it has a placement and does not ask. It is "" if the user
// expects nothing.
func (p *pod) unfit() string {
	switch {
	case p.asked.pin.Wanted && p.spec.Excluded.Why != "":
		return p.spec.Excluded.Why
	case p.spec.Annotations[v1alpha1.AnnotationPlacement] != "" && len(p.asked.problems) == 0:
		return "the pod has a placement and does not ask for exclusive CPUs"
	}
	return ""
}

// confirm reports that a pod runs on its CPUs, once Observe has shown that.
func (r *reports) confirm(p *pod) {
	if p.has.grant == nil || !p.real() || p.told.confirmed == p.has.grant {
		return
	}
	seen := false
	for _, c := range p.containers {
		one, found := p.has.grant.Parts[c.Name]
		if !found || c.Phase != observed.Running {
			continue
		}
		if !c.verified || p.ownOf(p.has.grant, c, c.CPUs) != one.CPUs {
			return
		}
		seen = true
	}
	if !seen {
		return
	}
	p.told.confirmed = p.has.grant
	var mems cpuset.Set
	for _, one := range p.has.grant.Parts {
		mems = mems.Union(r.facts.memsOf(one))
	}
	text := p.has.grant.List()
	if !mems.IsEmpty() {
		text += "; memory of NUMA nodes " + mems.String()
	}
	r.report(p, v1alpha1.EventCPUPinned, false, text+" ("+p.has.grant.From.String()+")")
}

// compareWritten corrects the annotation where it differs from the grant, and reports an annotation that another writer
// changed since Berth last read it.
func (r *reports) compareWritten(p *pod) {
	text := p.spec.Annotations[v1alpha1.AnnotationPlacement]
	if p.has.grant == nil || !p.real() || p.told.looked && text == p.told.written {
		return
	}
	first := !p.told.looked
	p.told.looked, p.told.written = true, text
	if p.has.grant.Says(text) || p.resizedInMove() {
		return
	}
	if first && p.has.grant.From == grant.ByAgent || text != "" && text == p.told.foreign || !p.full() {
		return // corrected already; or set twice by another writer; or CPUs are missing
	}
	if !first {
		p.told.foreign = text
		r.report(p, v1alpha1.EventPlacementRefused, true, "the placement was changed, which has no effect: the pod has "+p.has.grant.List())
	}
	delete(p.told.reported, "")
	r.writeBack(p)
}
