package inventory

import (
	"slices"

	"github.com/berth-project/berth/internal/nri"
	"github.com/berth-project/berth/internal/place"
)

// Renew adds to an answer those of the containers that a pass desired something of whose memory nodes are others by
// now than the runtime was answered last: its record follows, and systemd's with it. At a daemon-reload PID 1 writes
// what is on record, and where that lacks nodes the kernel moves all pages off them before the write ends
// (cpuset_migrate_mm in kernel/cgroup/cpuset.c). What a group has already moves nothing (update_nodemasks_hier, there).
func Renew(inv *Inventory, a *Answer, e nri.Event, desired []place.Desired) {
	if inv.owner.mems != "" {
		return
	}
	var old []place.Desired
	for i := range desired {
		id := desired[i].ContainerID
		answered := func(u nri.Change) bool { return u.ContainerID == id }
		if id == e.Container.ID || slices.ContainsFunc(a.Reply.Updates, answered) {
			continue
		}
		if d, found := stale(inv, &desired[i]); found {
			old = append(old, d)
		}
	}
	more := inv.answer(old)
	a.Reply.Updates, a.Changes = append(a.Reply.Updates, more.Reply.Updates...), append(a.Changes, more.Changes...)
}

// stale returns what to answer for a container whose record of memory nodes is an old one. The runtime writes it a
// moment later: nothing is answered while a write of memory nodes is due, which it would undo, or while others may
// have to leave the container's CPUs first. Where nothing is desired of memory nodes, the group has those from before
// Berth, which are no fewer than it was answered.
func stale(inv *Inventory, before *place.Desired) (d place.Desired, found bool) {
	c, answered := inv.containers.byID[before.ContainerID], inv.containers.answers.byID[before.ContainerID].Mems
	if c == nil || c.Phase != place.Running || len(answered) == 0 {
		return d, false
	}
	last := answered[len(answered)-1]
	if before.Mems == last {
		return d, false // as a rule, and no file is read
	}
	has := inv.containers.host.EffectiveMems(c.group)
	stands := has == before.Mems || before.Mems.IsEmpty() && last.IsSubsetOf(has)
	d, found = inv.node.DesiredFor(before.ContainerID)
	if !found || !stands || has == last || d.CPUs != c.CPUs || !d.Mems.IsSubsetOf(has) {
		return d, false
	}
	d.Mems = has
	return d, true
}
