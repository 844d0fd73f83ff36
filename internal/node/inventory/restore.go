package inventory

import (
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

// Leftover is a running container that has only few CPUs because Berth's answer with these CPUs is still on the
// runtime's record. An agent answered these CPUs and did not journal them, because it ended or everything was to be
// restored first, or systemd had them on record. Once the container has all possible CPUs the journal knows it, and its
// original is restored.
type Leftover struct {
	ID, PodUID, Name, Group string
	// CPUs are all that its group can have. Mems are the memory nodes of the group above, if an answer left it fewer.
	CPUs, Mems cpuset.Set
	// NoQuota is true if an answer removed the quota. Limit is then the limit of its pod's specification.
	NoQuota bool
	Limit   unit.CPUs
}

// Heals reports whether a Leftover gets all that it can have: the runtime has reported its containers, and no other
// program sets CPU sets. Containers need this most while everything is restored: no pass journals their answers any
// more.
func (inv *Inventory) Heals() bool {
	o := inv.owner
	o.restoring = observed.Obstacle{}
	return inv.started && inv.topology != nil && o.obstacle() == (observed.Obstacle{})
}

// Leftovers returns the containers that Berth heals, by ID, without those for which has returns true.
func (inv *Inventory) Leftovers(has func(id string) bool) []Leftover {
	inv.containers.looks++
	if !inv.Heals() {
		return nil
	}
	var all []Leftover
	for id := range inv.containers.byID {
		if has(id) {
			continue
		}
		if one, found := inv.leftover(id); found {
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b Leftover) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// Leftover returns one container as a Leftover, if Berth heals it.
func (inv *Inventory) Leftover(id string) (one Leftover, found bool) {
	if !inv.Heals() {
		return one, false
	}
	return inv.leftover(id)
}

// leftover returns what is left of Berth's answers for one container, if it has few CPUs.
func (inv *Inventory) leftover(id string) (one Leftover, found bool) {
	cs := &inv.containers
	c := cs.byID[id]
	if c == nil || !c.ours || c.group == "" || c.Phase != observed.Running || !cs.narrow(c, inv.topology.Online) {
		return one, false
	}
	if owner, _ := cs.host.Journaled(c.group); owner != "" {
		return one, false
	}
	one = Leftover{ID: id, PodUID: c.PodUID, Name: c.Name, Group: c.group, CPUs: c.most}
	a := cs.answers.byID[id]
	if inv.owner.mems == "" && slices.Contains(a.Mems, cs.host.EffectiveMems(c.group)) {
		one.Mems = cs.host.EffectiveMems(groupAbove(c.group))
	}
	limit := inv.Pods.LimitOf(c.PodUID, c.Name)
	if a.NoQuota && limit > 0 && cs.host.OriginalLimit(c.group) == 0 {
		one.NoQuota, one.Limit = true, limit
	}
	return one, true
}

// Unrestored returns what the journal does not say while everything is restored: awaited is why containers with few
// CPUs may still appear, doubt is that reason instead once it lasts. Each is a sentence, or "".
func Unrestored(inv *Inventory) (awaited, doubt string) {
	var o observed.Obstacle
	switch {
	case inv.owner.kubelet.Suspends():
		o = inv.owner.kubelet
	case !inv.started:
		o = inv.clock.starting()
	case inv.Heals():
		return inv.containers.unstarted(), ""
	}
	if o.Lasting {
		return "", o.Message
	}
	return o.Message, ""
}
