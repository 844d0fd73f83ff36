package inventory

import (
	"maps"
	"slices"

	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/nri"
	"github.com/berth-project/berth/internal/place"
)

// mostAnswers bounds the lists that are remembered of one container. An older one can
// only be on record where the runtime failed to carry out as many answers in a row.
const mostAnswers = 8

// Answered holds the lists that Berth answered the runtime for one container. A list on
// the runtime's record that is not among them is another owner's.
type Answered struct {
	// Pod is the UID of its pod.
	Pod string `json:"pod"`
	// CPUs and Mems are different lists each, the last one at the end.
	CPUs []cpuset.Set `json:"cpus,omitempty"`
	Mems []cpuset.Set `json:"mems,omitempty"`
}

// Answers returns what Berth answered, by container. It has to outlive the agent, on disk
// before the runtime is answered: the runtime's record says what was set, and not by whom.
func (inv *Inventory) Answers() map[string]Answered { return maps.Clone(inv.answers) }

// Recall takes over the Answers of an earlier agent of this boot.
func (inv *Inventory) Recall(answers map[string]Answered) {
	maps.Copy(inv.answers, answers)
}

// remember keeps an answer for a container.
func (inv *Inventory) remember(c *container, s nri.Settings) {
	a := inv.answers[c.ID]
	a.Pod, a.CPUs, a.Mems = c.PodUID, with(a.CPUs, s.CPUs), with(a.Mems, s.Mems)
	inv.answers[c.ID] = a
	if !s.CPUs.IsEmpty() {
		c.recorded, c.ours = s.CPUs, true
	}
}

// with returns lists with one more at the end, and does not change them.
func with(lists []cpuset.Set, last cpuset.Set) []cpuset.Set {
	if last.IsEmpty() {
		return lists
	}
	all := slices.DeleteFunc(slices.Clone(lists), func(s cpuset.Set) bool { return s == last })
	return append(all[max(len(all)+1-mostAnswers, 0):], last)
}

// dropAnswers forgets what was answered for containers that are gone.
func (inv *Inventory) dropAnswers(gone func(id string, a Answered) bool) {
	maps.DeleteFunc(inv.answers, gone)
}

// dropAnswersOf forgets those for a sandbox that is removed, and for its pod with the last.
func (inv *Inventory) dropAnswersOf(box nri.Pod) {
	inv.dropAnswers(func(id string, a Answered) bool { return id == box.ID || a.Pod == box.UID && !inv.hasSandbox(a.Pod) })
}

// judge says whether the CPUs on a container's record are Berth's own. They are if Berth
// answered them. Of a container without a known answer, as after the state directory was
// lost, the journal has to say it.
func (inv *Inventory) judge(c *container, journaled bool) {
	a, known := inv.answers[c.ID]
	if !known && journaled && !c.recorded.IsEmpty() {
		inv.remember(c, nri.Settings{CPUs: c.recorded})
		return
	}
	c.ours = slices.Contains(a.CPUs, c.recorded)
}

// compare finds another owner by the record of a container that exists, or that there is
// none any more.
func (inv *Inventory) compare(c *container, record nri.Resources) {
	switch mems := inv.answers[c.ID].Mems; {
	case !record.CPUs.IsEmpty() && !c.ours && inv.restricts(c, record.CPUs):
		inv.hasOwner(c.ID, foreignSet(inv.NameOf(c.PodUID), c.Name, "CPUs", record.CPUs, false))
	case inv.owner.mems == "" && !record.Mems.IsEmpty() && len(mems) > 0 && !slices.Contains(mems, record.Mems):
		inv.hasOwner(c.ID, foreignSet(inv.NameOf(c.PodUID), c.Name, "memory nodes", record.Mems, false))
	default:
		inv.forgetForeign(func(id string, o foreignOwner) bool { return id == c.ID && !o.made })
	}
}

// restricts says whether a list on record keeps a container off some CPUs. If it does not,
// because the container runs on others or the list names all, it has no owner.
func (inv *Inventory) restricts(c *container, cpus cpuset.Set) bool {
	all := inv.host.EffectiveCPUs("")
	if !all.IsEmpty() && all.IsSubsetOf(cpus) {
		return false
	}
	if c.Phase != place.Running {
		return c.Phase != place.Stopped
	}
	has := inv.host.EffectiveCPUs(c.group)
	return !has.IsEmpty() && has.IsSubsetOf(cpus) // a group that is gone has none
}

// made finds another owner by the sets that a container is about to be made with, or was
// made with. That owner sets them of the next container, too, so that it counts for as long
// as this one is there. The sets of an owner that is known otherwise end with it.
func (inv *Inventory) made(e nri.Event) {
	r, a, pod := e.Container.Resources, inv.answers[e.Container.ID], e.Pod.Namespace+"/"+e.Pod.Name
	switch id := e.Container.ID; {
	case inv.owner.known() != (Obstacle{}):
	case !r.CPUs.IsEmpty() && !slices.Contains(a.CPUs, r.CPUs):
		inv.hasOwner(id, foreignSet(pod, e.Container.Name, "CPUs", r.CPUs, true))
	case inv.owner.mems == "" && !r.Mems.IsEmpty() && !slices.Contains(a.Mems, r.Mems):
		inv.hasOwner(id, foreignSet(pod, e.Container.Name, "memory nodes", r.Mems, true))
	}
}

// foreignOwner is another owner of one container's sets.
type foreignOwner struct {
	Obstacle
	// made says that the container was made with them.
	made bool
}

func foreignSet(pod, container, what string, set cpuset.Set, made bool) foreignOwner {
	text := "container " + container + " of " + pod + " has " + what + " " + set.String() + ", which Berth did not give it"
	return foreignOwner{Obstacle{Reason: ForeignCPUSet, Message: text}, made}
}

// hasOwner remembers another owner. What a container was made with says more than what
// stands, and an owner with a name more than a set without one.
func (inv *Inventory) hasOwner(id string, o foreignOwner) {
	before := inv.owner.sets[id]
	if before.made && (!o.made || before.Reason == otherPlugin && o.Reason == ForeignCPUSet) {
		return
	}
	if inv.owner.sets == nil {
		inv.owner.sets = map[string]foreignOwner{}
	}
	inv.owner.sets[id] = o
	if inv.Obstacle() != inv.reported {
		inv.setFacts()
	}
}

// forgetForeign forgets other owners.
func (inv *Inventory) forgetForeign(gone func(id string, o foreignOwner) bool) {
	before := len(inv.owner.sets)
	maps.DeleteFunc(inv.owner.sets, gone)
	if len(inv.owner.sets) != before {
		inv.setFacts()
	}
}

// attempt is one container of a pod, however often the runtime makes it.
type attempt struct{ pod, name string }

// conflicts says that the container before this one in its pod was not made after Berth
// had set something of it, and forgets that. A plugin that is asked after Berth and sets
// the same fails every creation, and NRI reports that to neither: a creation that Berth
// leaves unanswered shows what the other plugin sets. It may have failed for another reason, too; the container gets its
// CPUs before it runs in any case.
func (inv *Inventory) conflicts(e nri.Event) bool {
	key := attempt{e.Pod.UID, e.Container.Name}
	before, failed := inv.attempts[key]
	delete(inv.attempts, key)
	return failed && before != e.Container.ID
}

// succeeded forgets the attempt that became a container, or whose answer came too late.
func (inv *Inventory) succeeded(e nri.Event) {
	key := attempt{e.Pod.UID, e.Container.Name}
	if inv.attempts[key] == e.Container.ID {
		delete(inv.attempts, key)
	}
}

// recorded takes over what an event says that the runtime has on record.
func (inv *Inventory) recorded(e nri.Event) {
	c, record := inv.containers[e.Container.ID], e.Container.Resources
	if c == nil {
		return
	}
	if !record.CPUs.IsEmpty() {
		c.recorded = record.CPUs
		journaled := false
		if _, known := inv.answers[c.ID]; !known && c.group != "" { // else the host need not be read
			journaled, _ = inv.host.Journaled(c.group)
		}
		inv.judge(c, journaled)
	}
	inv.compare(c, record)
}
