package inventory

import (
	"slices"

	"github.com/berth-project/berth/internal/place"
)

// heals reports whether a container with few CPUs left from an earlier answer gets all that it can have: the runtime
// has reported its containers, and no other program sets CPU sets. Containers need this most while everything is
// restored: no pass journals their answers any more.
func heals(inv *Inventory) bool {
	o := inv.owner
	o.restoring = Obstacle{}
	return inv.started && inv.facts.Machine != nil && o.obstacle() == (Obstacle{})
}

// forgotten returns the containers that Berth heals, with what they get.
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

// undo adds what undoes the remaining parts of a forgotten container's answer: the journal restores the memory nodes
// and the quota once it knows them.
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

// Unrestored returns what the journal does not say while everything is restored: awaited is why containers with few
// CPUs may still appear, doubt the reason if that lasts. Each is a sentence, or "".
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
