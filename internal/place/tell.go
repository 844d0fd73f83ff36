package place

import (
	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/placement"
)

// real says that somebody knows the pod and what it asks for. Of one that is
// provisional nothing is told or written: what it has is a guess.
func (t *tenant) real() bool { return t.known && !t.pod.Provisional }

// tell notes an event about a pod, unless it is what was told last by the same
// reason.
func (n *Node) tell(t *tenant, reason string, warning bool, text string) {
	if t.told[reason] == text || !t.real() {
		return
	}
	t.told[reason] = text
	n.news = append(n.news, News{PodUID: t.uid, Reason: reason, Text: text, Warning: warning})
}

// writeBack notes the placement of a pod, to be written.
func (n *Node) writeBack(t *tenant) {
	if !t.real() || t.grant == nil {
		return
	}
	p := t.grant.placement(n.facts.Machine, n.facts.Hash)
	text := p.Encode()
	if t.told[""] == text {
		return
	}
	t.told[""] = text
	if last := len(n.news) - 1; last >= 0 && n.news[last].PodUID == t.uid && n.news[last].Annotation == nil {
		n.news[last].Annotation = &p
		return
	}
	n.news = append(n.news, News{PodUID: t.uid, Annotation: &p})
}

// removed is in tenant.told, instead of the annotation, once its removal was noted.
const removed = "-"

// takeBack notes that the pod has nothing of what its placement says, so that this is
// to be removed. It is not done twice: whoever writes it again means it.
func (n *Node) takeBack(t *tenant) {
	if !t.real() || t.pod.Annotations[v1alpha1.AnnotationPlacement] == "" || t.told[""] == removed {
		return
	}
	t.told[""] = removed
	n.news = append(n.news, News{PodUID: t.uid, Unplaced: true})
}

// close tells pods that ask that nothing is pinned here.
func (n *Node) close(all []*tenant) {
	reason := n.facts.Reason
	if n.facts.Pinnable {
		reason = "its CPUs are not known"
	}
	for _, t := range all {
		n.examine(t)
		if t.asks() && t.grant == nil {
			t.denied, t.wait = placement.TextUnpinnable(reason), false
			n.tell(t, v1alpha1.EventPlacementRefused, true, t.denied)
		}
		t.pending, t.behind = true, false
	}
}

// examine tells what is wrong with what the pod says, whatever room there is.
func (n *Node) examine(t *tenant) {
	if !t.known || t.pod.Ended {
		return
	}
	if text := t.pin.UnknownText(); text != "" && t.late == "" {
		n.tell(t, v1alpha1.EventInvalidPolicy, true, text)
	}
	if t.late != "" {
		n.tell(t, v1alpha1.EventInvalidPolicy, true, t.late+": changed after the pod was created, which changes nothing: allowed: when the pod is created")
	}
	if len(t.problems) > 0 && t.grant == nil {
		n.tell(t, v1alpha1.EventInvalidPolicy, true, "no CPUs are pinned for this pod: "+lines(t.problems))
	}
	if t.grant != nil || t.asks() {
		return
	}
	why := t.unfit()
	if why == "" {
		return
	}
	t.denied = why
	n.tell(t, v1alpha1.EventPlacementRefused, true, t.denied)
	if !t.pin.Wanted || t.pod.Excluded != "" {
		n.takeBack(t)
	}
}

// unfit says why a pod that does not ask, or asks for what there is not, gets nothing,
// "" where nobody would expect it to.
func (t *tenant) unfit() string {
	switch {
	case t.pin.Wanted && t.pod.Excluded != "":
		return t.pod.Excluded
	case t.pin.Wanted && t.pin.StaticBurst:
		return "static-burst: not supported yet"
	case t.pod.Annotations[v1alpha1.AnnotationPlacement] != "" && len(t.problems) == 0:
		return "the pod has a placement and does not ask for CPUs of its own"
	}
	return ""
}

// confirm tells that a pod runs where it should, once it was seen to.
func (n *Node) confirm(t *tenant) {
	if t.grant == nil || !t.real() || t.confirmed == t.grant {
		return
	}
	seen := false
	for _, c := range t.containers {
		one, found := t.grant.parts[c.Name]
		if !found || c.Phase != Running {
			continue
		}
		if !c.verified || c.CPUs != one.cpus {
			return
		}
		seen = true
	}
	if !seen {
		return
	}
	t.confirmed = t.grant
	var mems cpuset.Set
	for _, one := range t.grant.parts {
		mems = mems.Union(n.memsOf(one))
	}
	text := t.grant.list()
	if !mems.IsEmpty() {
		text += "; memory of NUMA nodes " + mems.String()
	}
	n.tell(t, v1alpha1.EventCPUPinned, false, text+" ("+t.grant.from.String()+")")
}

// compareWritten has the annotation put right where it says something else than
// what the pod has, and tells of one that somebody changed meanwhile.
func (n *Node) compareWritten(t *tenant) {
	text := t.pod.Annotations[v1alpha1.AnnotationPlacement]
	if t.grant == nil || !t.real() || t.looked && text == t.written {
		return
	}
	first := !t.looked
	t.looked, t.written = true, text
	placed, problems := v1alpha1.DecodePlacement(text)
	if len(problems) == 0 && t.grant.says(&placed) {
		return
	}
	if first && t.grant.from == byAgent || text != "" && text == t.foreign || !t.full() {
		return // put right already; or somebody insists; or CPUs are missing
	}
	if !first {
		t.foreign = text
		n.tell(t, v1alpha1.EventPlacementRefused, true, "the placement was changed, which changes nothing: the pod has "+t.grant.list())
	}
	delete(t.told, "")
	n.writeBack(t)
}

// says whether a placement gives the same CPUs as the grant.
func (g *grant) says(p *v1alpha1.Placement) bool {
	if len(p.Containers) != len(g.parts) {
		return false
	}
	for name, one := range g.parts {
		if cpus, err := cpuset.Parse(p.Containers[name].CPUs); err != nil || cpus != one.cpus {
			return false
		}
	}
	return true
}
