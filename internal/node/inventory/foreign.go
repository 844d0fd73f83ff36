package inventory

import (
	"maps"
	"slices"

	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// otherPlugin is the Reason of an Obstacle for an NRI plugin, which the runtime names.
const otherPlugin = "OtherNRIPlugin"

// foreignOwner is another owner of one container's sets.
type foreignOwner struct {
	observed.Obstacle
	// made is true if the container was made with these sets.
	made bool
	// pod is the UID of the container's pod, namespace the pod's namespace.
	pod, namespace string
}

func foreignSet(pod nri.Pod, container, what string, set cpuset.Set, made bool) foreignOwner {
	text := "container " + container + " of " + pod.Namespace + "/" + pod.Name + " has " + what + " " + set.String() + ", which Berth did not give it"
	return foreignOwner{observed.Obstacle{Reason: observed.ForeignCPUSet, Message: text}, made, pod.UID, pod.Namespace}
}

// otherPluginOf returns the NRI plugin that sets CPU sets as an owner. It stays the owner even if the container gets
// other sets later (made).
func otherPluginOf(e nri.Event) foreignOwner {
	return foreignOwner{observed.Obstacle{Reason: otherPlugin, Message: "the NRI plugin " + e.Owner + " sets CPU sets"}, true, e.Pod.UID, e.Pod.Namespace}
}

// ofPod returns why a pod gets no CPUs of its own: another owner has set the CPUs of one of its containers. It returns
// "" if there is no other owner.
func (o owner) ofPod(uid string) string {
	for _, id := range slices.Sorted(maps.Keys(o.sets)) {
		if o.sets[id].pod == uid {
			return o.sets[id].Message
		}
	}
	return ""
}

// of reports whether another owner has set the sets of a container.
func (o owner) of(id string) bool {
	_, theirs := o.sets[id]
	return theirs
}

// found remembers another owner. A set from the creation of the container has precedence over a later set, and a named
// owner over a set without a name.
func (o *owner) found(id string, other foreignOwner) {
	before := o.sets[id]
	if before.made && (!other.made || before.Reason == otherPlugin && other.Reason == observed.ForeignCPUSet) {
		return
	}
	if o.sets == nil {
		o.sets = map[string]foreignOwner{}
	}
	o.sets[id] = other
}

// hasOwner remembers another owner.
func (inv *Inventory) hasOwner(id string, other foreignOwner) {
	why := inv.owner.ofPod(other.pod)
	inv.owner.found(id, other)
	if inv.owner.ofPod(other.pod) != why {
		putAgain(inv, other.pod)
	}
	inv.ownerChanged()
}

// forgetForeign forgets other owners.
func (inv *Inventory) forgetForeign(gone func(id string, o foreignOwner) bool) {
	var pods []string
	maps.DeleteFunc(inv.owner.sets, func(id string, o foreignOwner) bool {
		if !gone(id, o) {
			return false
		}
		pods = append(pods, o.pod)
		return true
	})
	for _, uid := range pods {
		putAgain(inv, uid)
	}
	if len(pods) > 0 {
		inv.ownerChanged()
	}
}

// putAgain records that another owner's sets in a pod changed.
func putAgain(inv *Inventory, uid string) {
	if inv.Pods.knows(uid) {
		inv.changes.add(Change{What: PodSeen, ID: uid})
	}
}

// bind limits a container to the CPUs that another owner gave it: in the shared pool it has only those of these CPUs
// that are in the pool. The empty set means that there is no other owner.
func bind(inv *Inventory, c *container, cpus cpuset.Set) {
	if c.Bound != cpus {
		c.Bound = cpus
		inv.changes.saw(c)
	}
}

// forgetGone forgets the owners of the sets of removed containers.
func (inv *Inventory) forgetGone() {
	inv.forgetForeign(func(id string, _ foreignOwner) bool { return inv.containers.byID[id] == nil })
}

// made finds another owner by the sets that a container is, or is about to be, made with. That owner also sets the next
// container's sets, so it is remembered while this container exists. If an owner is known otherwise, the sets are its
// sets.
func (inv *Inventory) made(e nri.Event) {
	r, a := e.Container.Resources, inv.containers.answers.byID[e.Container.ID]
	switch id := e.Container.ID; {
	case inv.owner.known() != (observed.Obstacle{}):
	case !r.CPUs.IsEmpty() && !slices.Contains(a.CPUs, r.CPUs):
		inv.hasOwner(id, foreignSet(e.Pod, e.Container.Name, "CPUs", r.CPUs, true))
		if c := inv.containers.byID[id]; c != nil { // it has no CPUs of Berth's answer
			c.CPUs = r.CPUs
			bind(inv, c, r.CPUs)
		}
	case inv.owner.mems == "" && !r.Mems.IsEmpty() && !slices.Contains(a.Mems, r.Mems):
		inv.hasOwner(id, foreignSet(e.Pod, e.Container.Name, "memory nodes", r.Mems, true))
	}
}

// compare finds another owner by the runtime's record of an existing container, or that the container has no other
// owner any more.
func (inv *Inventory) compare(c *container, record nri.Resources) {
	switch mems := inv.containers.answers.byID[c.ID].Mems; {
	case !record.CPUs.IsEmpty() && !c.ours && inv.containers.restricts(c, record.CPUs):
		inv.hasOwner(c.ID, foreignSet(inv.containers.podOf(c), c.Name, "CPUs", record.CPUs, false))
		bind(inv, c, record.CPUs)
	case inv.owner.mems == "" && !record.Mems.IsEmpty() && len(mems) > 0 && !slices.Contains(mems, record.Mems):
		inv.hasOwner(c.ID, foreignSet(inv.containers.podOf(c), c.Name, "memory nodes", record.Mems, false))
	default:
		if o, theirs := inv.owner.sets[c.ID]; theirs && !o.made {
			inv.forgetForeign(func(id string, _ foreignOwner) bool { return id == c.ID })
			bind(inv, c, cpuset.Set{})
		}
	}
}
