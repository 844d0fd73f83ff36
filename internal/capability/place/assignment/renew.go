package assignment

import (
	"slices"

	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/node/observed"
)

// Renew adds to an answer the containers of desired whose memory nodes differ from the runtime's last answer, so that
// the runtime's record and systemd's follow. At a daemon-reload PID 1 writes the recorded nodes. The kernel moves all
// pages off missing nodes before that write ends (cpuset_migrate_mm in kernel/cgroup/cpuset.c). Recording the nodes
// that a group already has moves nothing (update_nodemasks_hier, there).
func (a *Assignment) Renew(answer *Answer, e nri.Event, desired []place.Desired) {
	a.learn()
	if a.inventory.MemsOwner() != "" {
		return
	}
	var old []place.Desired
	for i := range desired {
		id := desired[i].ContainerID
		answered := func(u nri.Change) bool { return u.ContainerID == id }
		if id == e.Container.ID || slices.ContainsFunc(answer.Reply.Updates, answered) {
			continue
		}
		if d, found := a.stale(&desired[i]); found {
			old = append(old, d)
		}
	}
	more := a.answer(old)
	answer.Reply.Updates = append(answer.Reply.Updates, more.Reply.Updates...)
	answer.Changes = append(answer.Changes, more.Changes...)
}

// stale returns the answer for a container whose record of memory nodes is old. The runtime writes the answer a moment
// later. stale returns none while a write of memory nodes is due, which the answer would undo, or while other
// containers may have to leave the container's CPUs first. If no memory nodes are desired, the group has its nodes from
// before Berth, which include all answered nodes.
func (a *Assignment) stale(before *place.Desired) (d place.Desired, found bool) {
	id := before.ContainerID
	c, known := a.inventory.Containers().Of(id)
	answered := a.inventory.Containers().Answered(id).Mems
	if !known || c.Phase != observed.Running || len(answered) == 0 {
		return d, false
	}
	last := answered[len(answered)-1]
	if before.Mems == last {
		return d, false // the usual case: no file is read
	}
	has := a.inventory.Containers().MemsOf(id)
	stands := has == before.Mems || before.Mems.IsEmpty() && last.IsSubsetOf(has)
	d, found = a.node.DesiredFor(id)
	if !found || !stands || has == last || d.CPUs != c.CPUs || !d.Mems.IsSubsetOf(has) {
		return d, false
	}
	d.Mems = has
	return d, true
}
