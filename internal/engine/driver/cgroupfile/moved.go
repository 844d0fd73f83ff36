package cgroupfile

import (
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// nodesBefore returns the memory nodes in effect before a change of a group's memory nodes, for rest. It returns the
// empty set for any other change.
func nodesBefore(g *cgroup.Group, c plan.Change) cpuset.Set {
	if Knob(c.Target) != cgroup.KnobMems {
		return cpuset.Set{}
	}
	had, err := g.EffectiveMems()
	if err != nil {
		return cpuset.Set{} // the change itself says what is wrong with the group
	}
	return had
}

// rest is what a write of memory nodes may have left on lost nodes.
type rest struct {
	host   knownHost
	call   apply.Call
	group  *cgroup.Group
	change plan.Change
	// had are the nodes in effect before the write, empty if nothing has to move.
	had cpuset.Set
}

// move makes the kernel move the pages that a write of memory nodes left on lost nodes. It writes the value before, and
// then the written value again. It does so at most once: pages that stay then cannot be moved.
//
// The kernel moves pages from the nodes that it remembers for the group (old_mems_allowed in kernel/cgroup/cpuset.c).
// It remembers nodes at a write, and when a process is attached. A process that begins in its group is not attached
// (CLONE_INTO_CGROUP, which systemd uses since version 257), so the first write finds nothing to move from.
//
// The value in between has to change the nodes in effect: the kernel then remembers the nodes of the first write, and
// moves only what came to these nodes since. The value before does that, and the journal knows it: after a crash, a
// rollback finds the original. Both writes go to the file, also for a unit. systemd has the new value on record
// already, and does not wait for the pages. The error says why the group has the value before: the last write may not
// be made now, or failed.
func (r rest) move(written cgroup.Value) error {
	before, worthwhile := r.between()
	if worthwhile && put(r.group, cgroup.KnobMems, before) == nil {
		r.call.Written(r.change.Target)
		return r.again(written)
	}
	return nil // the new value is in effect, and at most a move was refused
}

// again makes the last write.
func (r rest) again(written cgroup.Value) error {
	if err := mayMove(r.host, r.group, written); err != nil {
		return err
	}
	if err := put(r.group, cgroup.KnobMems, written); err != nil {
		return explainList(r.group, cgroup.KnobMems, written, err)
	}
	r.call.Written(r.change.Target)
	return nil
}

// between returns the value that move writes in between, and false if it must not write: hardly a page is left on a
// lost node (cgroup.Outside), pages never move on this host, the value would change nothing, or the write might never
// end. Few pages are not worth two more writes, which may move others back and forth.
func (r rest) between() (before cgroup.Value, worthwhile bool) {
	if r.had.IsEmpty() {
		return "", false
	}
	has, err := r.group.EffectiveMems()
	if err != nil || r.had.IsSubsetOf(has) || !cgroup.Populated(r.group) || cgroup.KeepsPages(r.group) || cgroup.Outside(r.group, has) == 0 {
		return "", false
	}
	if before = cgroup.Value(r.change.From); before == cgroup.Inherit { // the file of a group with processes cannot be emptied
		before = r.group.Unlimited(cgroup.KnobMems)
	}
	_, same, err := r.group.InEffect(cgroup.KnobMems, before)
	return before, before != cgroup.Inherit && err == nil && !same && mayMove(r.host, r.group, before) == nil
}
