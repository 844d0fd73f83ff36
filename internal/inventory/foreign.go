package inventory

import (
	"maps"
	"slices"

	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/nri"
)

// otherPlugin is the Reason of an Obstacle that the runtime names.
const otherPlugin = "OtherNRIPlugin"

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

// otherPluginOf is a plugin that sets CPU sets. It outlasts the sets themselves.
func otherPluginOf(e nri.Event) foreignOwner {
	return foreignOwner{Obstacle{Reason: otherPlugin, Message: "the NRI plugin " + e.Owner + " sets CPU sets"}, true}
}

// found remembers another owner. What a container was made with says more than what
// stands, and an owner with a name more than a set without one.
func (o *owner) found(id string, other foreignOwner) {
	before := o.sets[id]
	if before.made && (!other.made || before.Reason == otherPlugin && other.Reason == ForeignCPUSet) {
		return
	}
	if o.sets == nil {
		o.sets = map[string]foreignOwner{}
	}
	o.sets[id] = other
}

// hasOwner remembers another owner.
func (inv *Inventory) hasOwner(id string, other foreignOwner) {
	inv.owner.found(id, other)
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

// forgetGone forgets the owners of the sets of containers that are gone.
func (inv *Inventory) forgetGone() {
	inv.forgetForeign(func(id string, _ foreignOwner) bool { return inv.containers.byID[id] == nil })
}

// made finds another owner by the sets that a container is about to be made with, or was
// made with. That owner sets them of the next container, too, so that it counts for as long
// as this one is there. The sets of an owner that is known otherwise end with it.
func (inv *Inventory) made(e nri.Event) {
	r, a, pod := e.Container.Resources, inv.containers.answers.byID[e.Container.ID], e.Pod.Namespace+"/"+e.Pod.Name
	switch id := e.Container.ID; {
	case inv.owner.known() != (Obstacle{}):
	case !r.CPUs.IsEmpty() && !slices.Contains(a.CPUs, r.CPUs):
		inv.hasOwner(id, foreignSet(pod, e.Container.Name, "CPUs", r.CPUs, true))
	case inv.owner.mems == "" && !r.Mems.IsEmpty() && !slices.Contains(a.Mems, r.Mems):
		inv.hasOwner(id, foreignSet(pod, e.Container.Name, "memory nodes", r.Mems, true))
	}
}

// recorded takes over what an event says that the runtime has on record.
func (inv *Inventory) recorded(e nri.Event) {
	if c := inv.containers.byID[e.Container.ID]; c != nil {
		inv.containers.recorded(c, e.Container.Resources.CPUs)
		inv.compare(c, e.Container.Resources)
	}
}

// compare finds another owner by the record of a container that exists, or that there is
// none any more.
func (inv *Inventory) compare(c *container, record nri.Resources) {
	switch mems := inv.containers.answers.byID[c.ID].Mems; {
	case !record.CPUs.IsEmpty() && !c.ours && inv.containers.restricts(c, record.CPUs):
		inv.hasOwner(c.ID, foreignSet(inv.NameOf(c.PodUID), c.Name, "CPUs", record.CPUs, false))
	case inv.owner.mems == "" && !record.Mems.IsEmpty() && len(mems) > 0 && !slices.Contains(mems, record.Mems):
		inv.hasOwner(c.ID, foreignSet(inv.NameOf(c.PodUID), c.Name, "memory nodes", record.Mems, false))
	default:
		inv.forgetForeign(func(id string, o foreignOwner) bool { return id == c.ID && !o.made })
	}
}
