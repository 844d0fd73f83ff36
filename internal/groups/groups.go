// Package groups reads what a decision about CPUs has to know of the groups of this host:
// which CPUs they have, and which they would have without Berth. What the group says of
// itself counts for the first, what the journal says of this very group for the second.
package groups

import (
	"fmt"
	"strings"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
)

// Groups are the groups of one host. It reads, and keeps nothing.
type Groups struct {
	Host    *cgroup.Host
	Journal *journal.Journal
}

// EffectiveCPUs are those that the group's processes may run on, none where that is
// not known.
func (g Groups) EffectiveCPUs(path string) cpuset.Set {
	group, err := g.Host.Group(path)
	if err != nil {
		return cpuset.Set{} // gone, or not there yet
	}
	defer group.Close()
	cpus, err := group.EffectiveCPUs()
	if err != nil {
		return cpuset.Set{}
	}
	return cpus
}

// EffectiveMems are the memory nodes that the group's processes may use, none where that is
// not known.
func (g Groups) EffectiveMems(path string) cpuset.Set {
	group, err := g.Host.Group(path)
	if err != nil {
		return cpuset.Set{}
	}
	defer group.Close()
	mems, err := group.EffectiveMems()
	if err != nil {
		return cpuset.Set{}
	}
	return mems
}

// Journaled says whether the journal has the CPUs of this very group, and whether as
// set for its own pod.
func (g Groups) Journaled(path string) (set, pinned bool) {
	e, ok := g.Journal.Entry(cgroupfile.Target(path, cgroup.KnobCPUs))
	set = ok && g.same(e)
	return set, set && e.Owner == plan.OwnerPlace
}

// OriginalCPUs are those that the group would have without Berth: the list that the
// journal or the group has, else that of the next group above which has one. A group
// without any may have every CPU of the machine, also those that are offline.
func (g Groups) OriginalCPUs(path string) cpuset.Set {
	for {
		list, err := g.originalList(path)
		if set, inherits, bad := list.List(); err == nil && bad == nil && !inherits {
			return set
		}
		if path == "" {
			return cpuset.Set{}
		}
		path = path[:max(strings.LastIndexByte(path, '/'), 0)]
	}
}

// originalList is the list of a group's own without Berth, cgroup.Inherit for none.
func (g Groups) originalList(path string) (cgroup.Value, error) {
	group, err := g.Host.Group(path)
	if err != nil {
		return "", fmt.Errorf("original CPUs: %w", err)
	}
	defer group.Close()
	if path == "" {
		return group.Unlimited(cgroup.KnobCPUs), nil
	}
	list, err := group.Read(cgroup.KnobCPUs)
	if err != nil {
		return "", fmt.Errorf("original CPUs: %w", err)
	}
	if e, known := g.Journal.Entry(cgroupfile.Target(path, cgroup.KnobCPUs)); known && isOf(e, group, list) {
		return cgroup.Value(e.Original), nil
	}
	return list, nil
}

// isOf says whether the group, which has this list, is the one that an entry speaks of, also
// where systemd has made a service's group again with Berth's list.
func isOf(e journal.Entry, group *cgroup.Group, list cgroup.Value) bool {
	id, err := group.ID(cgroup.CPUSet)
	return err == nil && e.IsOf(cgroupfile.Values(), cgroupfile.Identity(id), plan.Value(list))
}

// same says whether the group is the one that the entry speaks of.
func (g Groups) same(e journal.Entry) bool {
	group, err := g.Host.Group(e.Target.Object)
	if err != nil {
		return false
	}
	defer group.Close()
	list, err := group.Read(cgroup.KnobCPUs)
	return err == nil && isOf(e, group, list)
}
