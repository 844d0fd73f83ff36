// Package groups reads what a decision about CPUs needs to know of this host's groups: which CPUs they have, and which
// CPUs they would have without Berth. The group's own files answer the first question, the journal's entry for this
// very group the second.
package groups

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

// Groups reads the groups of one host. It leaves the last groups open: an answer to the runtime reads the same groups
// several times, and the groups above them each time. Groups is for one goroutine at a time.
type Groups struct {
	Host    *cgroup.Host
	Journal *journal.Journal
	// held has the open groups, the group that was read last at the end.
	held []*cgroup.Group
}

// mostHeld is how many groups stay open.
const mostHeld = 8

// read calls do with the group at path, opened in the hierarchy of its CPUs. A group that exists only in another
// hierarchy may have all CPUs; with one hierarchy there is no other.
func (g *Groups) read(path string, do func(*cgroup.Group) error) error {
	if group := g.hold(path); group != nil {
		err := do(group)
		if err == nil {
			return nil
		}
		// The group's open files become invalid once a controller was disabled and enabled again.
		g.letGo(len(g.held) - 1)
	}
	group, err := g.Host.Group(path, cgroup.CPUSet)
	if err == nil {
		if g.held = append(g.held, group); len(g.held) > mostHeld {
			g.letGo(0)
		}
		return do(group)
	}
	if !errors.Is(err, cgroup.ErrNoGroup) || g.Host.Layout() == "v2" {
		return fmt.Errorf("open: %w", err)
	}
	if group, err = g.Host.Group(path); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer group.Close()
	return do(group)
}

// hold returns an open group that still exists, nil for none.
func (g *Groups) hold(path string) *cgroup.Group {
	at := slices.IndexFunc(g.held, func(h *cgroup.Group) bool { return h.Path() == path })
	if at < 0 {
		return nil
	}
	group := g.held[at]
	if dir, err := group.Dir(cgroup.CPUSet); err != nil || dir.Alive() != nil {
		g.letGo(at)
		return nil
	}
	g.held = append(slices.Delete(g.held, at, at+1), group)
	return group
}

// letGo closes the open group at an index.
func (g *Groups) letGo(at int) {
	_ = g.held[at].Close() // the group was only read
	g.held = slices.Delete(g.held, at, at+1)
}

// EffectiveCPUs returns the CPUs that the group's processes may run on, none if they are not known.
func (g *Groups) EffectiveCPUs(path string) cpuset.Set {
	return g.effective(path, (*cgroup.Group).EffectiveCPUs)
}

// EffectiveMems returns the memory nodes that the group's processes may use, none if they are not known.
func (g *Groups) EffectiveMems(path string) cpuset.Set {
	return g.effective(path, (*cgroup.Group).EffectiveMems)
}

func (g *Groups) effective(path string, read func(*cgroup.Group) (cpuset.Set, error)) (set cpuset.Set) {
	err := g.read(path, func(group *cgroup.Group) (err error) {
		set, err = read(group)
		return err
	})
	if err != nil {
		return cpuset.Set{} // gone, or not made yet
	}
	return set
}

// Journaled returns the owner that the journal has for the CPUs of this very group, "" for none, and the CPUs that the
// group was given. There are none if the desired value of a pinned group is its original, or is no list. The journal is
// ahead of the write: exclusive CPUs still belong to the group while they are in effect, although a new list is about
// to be written.
func (g *Groups) Journaled(path string) (owner plan.Owner, given cpuset.Set) {
	e, ok := g.Journal.Entry(cgroupfile.Target(path, cgroup.KnobCPUs))
	if !ok {
		return "", cpuset.Set{}
	}
	stands, same := g.stands(e)
	switch {
	case !same:
		return "", cpuset.Set{}
	case e.Owner == plan.OwnerPlace && e.Owned && cgroup.Same(cgroup.KnobCPUs, stands, cgroup.Value(e.Previous)) && !g.isAnothers(e, listed(e.Previous)):
		return e.Owner, listed(e.Previous)
	case e.Owner == plan.OwnerPlace && e.IsOriginal(cgroupfile.Values(), e.Intent): // it is about to get back its original, which is not exclusive
		return e.Owner, cpuset.Set{}
	}
	return e.Owner, listed(e.Intent)
}

// isAnothers reports whether some of the group's former CPUs were given to another group since: the former list is in
// effect because a program wrote it again.
func (g *Groups) isAnothers(of journal.Entry, cpus cpuset.Set) bool {
	return len(g.Journal.Select(func(e journal.Entry) bool {
		return e.Target.Knob == of.Target.Knob && e.Target.Object != of.Target.Object && e.Owner == plan.OwnerPlace && listed(e.Intent).Intersects(cpus)
	})) > 0
}

// listed returns the CPUs of a list, empty for none.
func listed(v plan.Value) cpuset.Set {
	set, _, err := cgroup.Value(v).List()
	if err != nil {
		return cpuset.Set{}
	}
	return set
}

// OriginalCPUs returns the CPUs that the group would have without Berth: its own list in the journal or in its file, or
// else the list of the nearest group above that has one. A group without any list may have every CPU of the machine,
// including offline CPUs.
func (g *Groups) OriginalCPUs(path string) cpuset.Set {
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

// HasProcesses reports whether a process is in the group or below it. It is also true if an existing group cannot be
// read.
func (g *Groups) HasProcesses(path string) bool {
	some, err := cgroup.HasProcesses(g.Host, path)
	return some || err != nil
}

// OriginalLimit returns the group's own limit without Berth, 0 for none or if it is not known.
func (g *Groups) OriginalLimit(path string) unit.CPUs {
	group, err := g.Host.Group(path, cgroup.CPU)
	if err != nil {
		return 0
	}
	defer group.Close()
	limit, err := group.Read(cgroup.KnobMax)
	if err != nil {
		return 0
	}
	if e, known := g.Journal.Entry(cgroupfile.Target(path, cgroup.KnobMax)); known && isOf(e, group, limit) {
		limit = cgroup.Value(e.Original)
	}
	return limit.Rate()
}

// originalList returns the group's own list without Berth, cgroup.Inherit for none.
func (g *Groups) originalList(path string) (list cgroup.Value, err error) {
	err = g.read(path, func(group *cgroup.Group) error {
		if path == "" {
			list = group.Unlimited(cgroup.KnobCPUs)
			return nil
		}
		if list, err = group.Read(cgroup.KnobCPUs); err != nil {
			return fmt.Errorf("original CPUs: %w", err)
		}
		if e, known := g.Journal.Entry(cgroupfile.Target(path, cgroup.KnobCPUs)); known && isOf(e, group, list) {
			list = cgroup.Value(e.Original)
		}
		if cgroup.IsUnlimited(group, cgroup.KnobCPUs, list) { // with processes, a group that should inherit again has a list of all CPUs
			list = cgroup.Inherit
		}
		return nil
	})
	return list, err
}

// isOf reports whether an entry is about the group, which has the value v. It is also true if systemd made a service's
// group again with Berth's list.
func isOf(e journal.Entry, group *cgroup.Group, v cgroup.Value) bool {
	id, err := cgroupfile.IdentityOf(group, e.Target)
	return err == nil && e.IsOf(cgroupfile.Values(), id, plan.Value(v))
}

// stands returns the current list of the group at the entry's path, and whether the entry is about that group.
func (g *Groups) stands(e journal.Entry) (list cgroup.Value, same bool) {
	err := g.read(e.Target.Object, func(group *cgroup.Group) (err error) {
		if list, err = group.Read(cgroup.KnobCPUs); err != nil {
			return fmt.Errorf("CPUs of an entry: %w", err)
		}
		same = isOf(e, group, list)
		return nil
	})
	return list, err == nil && same
}
