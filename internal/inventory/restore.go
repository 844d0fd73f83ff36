package inventory

import (
	"slices"

	"github.com/berth-project/berth/internal/place"
)

// heals says whether a container that has few CPUs left of what Berth once answered gets all
// that it can have: the runtime has reported its containers, and nothing else sets CPU sets. While
// everything is put back containers need it most: no pass journals any more what they were answered.
func heals(inv *Inventory) bool {
	o := inv.owner
	o.restoring = Obstacle{}
	return inv.started && inv.facts.Machine != nil && o.obstacle() == (Obstacle{})
}

// forgotten are the containers that Berth heals, with what they get.
func forgotten(inv *Inventory) []place.Desired {
	if !heals(inv) {
		return nil
	}
	all := inv.containers.forgotten(inv.facts.Machine.Topology().Online)
	for i := range all {
		undo(inv, &all[i])
	}
	return all
}

// undo adds to what a forgotten container gets what takes back the rest of its answer: once the journal
// knows its memory nodes and that it has no quota, these go back, too.
func undo(inv *Inventory, d *place.Desired) {
	cs := &inv.containers
	a := cs.answers.byID[d.ContainerID]
	if inv.owner.mems == "" && slices.Contains(a.Mems, cs.host.EffectiveMems(d.Group)) {
		d.Mems = cs.host.EffectiveMems(groupAbove(d.Group))
	}
	limit := inv.limitOf(d.PodUID, d.Container)
	if a.NoQuota && limit > 0 && cs.host.OriginalLimit(d.Group) == 0 {
		d.NoQuota, d.Limit = true, limit
	}
}

// Unrestored returns what the journal does not say of everything being put back: why containers may
// still turn up that have few CPUs, and where that lasts the doubt that stays; each is a sentence, or
// "".
func Unrestored(inv *Inventory) (awaited, doubt string) {
	var o Obstacle
	switch {
	case inv.owner.kubelet.Suspends():
		o = inv.owner.kubelet
	case !inv.started:
		o = inv.clock.starting()
	case heals(inv):
		return inv.containers.unstarted(), ""
	}
	if o.Lasting {
		return "", o.Message
	}
	return o.Message, ""
}
