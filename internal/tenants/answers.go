package tenants

import (
	"maps"
	"slices"

	"github.com/berth-project/berth/internal/arbiter"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/nri"
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
func (t *Tenants) Answers() map[string]Answered { return maps.Clone(t.answers) }

// Recall takes over the Answers of an earlier agent of this boot.
func (t *Tenants) Recall(answers map[string]Answered) {
	for id, a := range answers {
		t.answers[id] = a
	}
}

// gave remembers an answer for a container.
func (t *Tenants) gave(c *container, s nri.Settings) {
	a := t.answers[c.ID]
	a.Pod, a.CPUs, a.Mems = c.PodUID, with(a.CPUs, s.CPUs), with(a.Mems, s.Mems)
	t.answers[c.ID] = a
	if !s.CPUs.IsEmpty() {
		c.told, c.ours = s.CPUs, true
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
func (t *Tenants) dropAnswers(gone func(id string, a Answered) bool) {
	maps.DeleteFunc(t.answers, gone)
}

// dropAnswersOf forgets those for a sandbox that is removed, and for its pod with the last.
func (t *Tenants) dropAnswersOf(box nri.Pod) {
	t.dropAnswers(func(id string, a Answered) bool { return id == box.ID || a.Pod == box.UID && !t.hasSandbox(a.Pod) })
}

// judge says whether the CPUs on a container's record are Berth's own. They are if they
// were answered. Of a container that nothing is known to have been answered for, as after
// the state directory was lost, the journal has to say it.
func (t *Tenants) judge(c *container, journaled bool) {
	a, known := t.answers[c.ID]
	if !known && journaled && !c.told.IsEmpty() {
		t.gave(c, nri.Settings{CPUs: c.told})
		return
	}
	c.ours = slices.Contains(a.CPUs, c.told)
}

// compare finds another owner by the record of a container that exists, or that there is
// none any more.
func (t *Tenants) compare(c *container, record nri.Resources) {
	switch mems := t.answers[c.ID].Mems; {
	case !record.CPUs.IsEmpty() && !c.ours && t.keepsOff(c, record.CPUs):
		t.hasOwner(c.ID, foreignSet(t.NameOf(c.PodUID), c.Name, "CPUs", record.CPUs, false))
	case t.owner.mems == "" && !record.Mems.IsEmpty() && len(mems) > 0 && !slices.Contains(mems, record.Mems):
		t.hasOwner(c.ID, foreignSet(t.NameOf(c.PodUID), c.Name, "memory nodes", record.Mems, false))
	default:
		t.forgetForeign(func(id string, o foreignOwner) bool { return id == c.ID && !o.made })
	}
}

// keepsOff says whether a list on record keeps a container off some CPUs. If it does not,
// because the container runs on others or the list names all, it has no owner.
func (t *Tenants) keepsOff(c *container, cpus cpuset.Set) bool {
	all := t.host.EffectiveCPUs("")
	if !all.IsEmpty() && all.IsSubsetOf(cpus) {
		return false
	}
	return c.Phase != arbiter.Running || t.host.EffectiveCPUs(c.group).IsSubsetOf(cpus)
}

// made finds another owner by the sets that a container is about to be made with, or was
// made with. That owner sets them of the next container, too, so that it counts for as long
// as this one is there. The sets of an owner that is known otherwise end with it.
func (t *Tenants) made(e nri.Event) {
	r, a, pod := e.Container.Resources, t.answers[e.Container.ID], e.Pod.Namespace+"/"+e.Pod.Name
	switch id := e.Container.ID; {
	case t.owner.known() != (Obstacle{}):
	case !r.CPUs.IsEmpty() && !slices.Contains(a.CPUs, r.CPUs):
		t.hasOwner(id, foreignSet(pod, e.Container.Name, "CPUs", r.CPUs, true))
	case t.owner.mems == "" && !r.Mems.IsEmpty() && !slices.Contains(a.Mems, r.Mems):
		t.hasOwner(id, foreignSet(pod, e.Container.Name, "memory nodes", r.Mems, true))
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
// stands.
func (t *Tenants) hasOwner(id string, o foreignOwner) {
	if t.owner.sets[id].made && !o.made {
		return
	}
	if t.owner.sets == nil {
		t.owner.sets = map[string]foreignOwner{}
	}
	t.owner.sets[id] = o
	if t.Obstacle() != t.standing {
		t.tellFacts()
	}
}

// forgetForeign forgets other owners.
func (t *Tenants) forgetForeign(gone func(id string, o foreignOwner) bool) {
	before := len(t.owner.sets)
	maps.DeleteFunc(t.owner.sets, gone)
	if len(t.owner.sets) != before {
		t.tellFacts()
	}
}

// try is one container of a pod, however often the runtime makes it.
type try struct{ pod, name string }

// conflicts says that the container before this one in its pod was not made after Berth
// had set something of it, and forgets that. A plugin that is asked after Berth and sets
// the same fails every creation, and NRI tells neither: one that goes unanswered shows
// what is set then. It may have failed for another reason, too; the container gets its
// CPUs before it runs in any case.
func (t *Tenants) conflicts(e nri.Event) bool {
	key := try{e.Pod.UID, e.Container.Name}
	before, failed := t.tries[key]
	delete(t.tries, key)
	return failed && before != e.Container.ID
}

// succeeded forgets the try that became a container, or whose answer came too late.
func (t *Tenants) succeeded(e nri.Event) {
	key := try{e.Pod.UID, e.Container.Name}
	if t.tries[key] == e.Container.ID {
		delete(t.tries, key)
	}
}

// recorded takes over what an event says that the runtime has on record.
func (t *Tenants) recorded(e nri.Event) {
	c, record := t.containers[e.Container.ID], e.Container.Resources
	if c == nil {
		return
	}
	if !record.CPUs.IsEmpty() {
		c.told = record.CPUs
		t.judge(c, false)
	}
	t.compare(c, record)
}
