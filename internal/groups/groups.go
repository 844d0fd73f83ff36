// Package groups reads what a decision about CPUs has to know of the groups of this host:
// which CPUs they have, and which they would have without Berth. What the group says of
// itself counts for the first, what the journal says of this very group for the second.
package groups

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/unit"
)

// Groups are the groups of one host. It reads, and holds those that it read last: an answer to
// the runtime asks for the same ones several times, and all ask for those above. It belongs to
// one goroutine at a time.
type Groups struct {
	Host    *cgroup.Host
	Journal *journal.Journal
	// held are open, the one that was read last at the end.
	held []*cgroup.Group
}

// mostHeld is how many groups are held.
const mostHeld = 8

// read calls a function with a group, opened where its CPUs are. One that is elsewhere only may
// have all CPUs; with one hierarchy there is no elsewhere.
func (g *Groups) read(path string, do func(*cgroup.Group) error) error {
	if group := g.hold(path); group != nil {
		err := do(group)
		if err == nil {
			return nil
		}
		// It keeps files open, and they are others once a controller was taken away and given back.
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

// hold returns a group that is held and still there, nil for none.
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

// letGo holds a group no longer.
func (g *Groups) letGo(at int) {
	_ = g.held[at].Close() // only read through
	g.held = slices.Delete(g.held, at, at+1)
}

// EffectiveCPUs are those that the group's processes may run on, none where that is
// not known.
func (g *Groups) EffectiveCPUs(path string) cpuset.Set {
	return g.effective(path, (*cgroup.Group).EffectiveCPUs)
}

// EffectiveMems are the memory nodes that the group's processes may use, none where that is
// not known.
func (g *Groups) EffectiveMems(path string) cpuset.Set {
	return g.effective(path, (*cgroup.Group).EffectiveMems)
}

func (g *Groups) effective(path string, read func(*cgroup.Group) (cpuset.Set, error)) (set cpuset.Set) {
	err := g.read(path, func(group *cgroup.Group) (err error) {
		set, err = read(group)
		return err
	})
	if err != nil {
		return cpuset.Set{} // gone, or not there yet
	}
	return set
}

// Journaled says for whom the journal has the CPUs of this very group, "" for nobody, and which ones it
// was given: none where nothing was to be written yet. The journal is ahead of the write: exclusive
// CPUs that still stand although others were to be written are the group's own until they are gone.
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
	case e.Owner == plan.OwnerPlace && e.IsOriginal(cgroupfile.Values(), e.Intent): // it goes back to what is nobody's own
		return e.Owner, cpuset.Set{}
	}
	return e.Owner, listed(e.Intent)
}

// isAnothers says that some of the CPUs that a group had were given to another one since: its list stands
// because a program wrote it again.
func (g *Groups) isAnothers(of journal.Entry, cpus cpuset.Set) bool {
	return len(g.Journal.Select(func(e journal.Entry) bool {
		return e.Target.Knob == of.Target.Knob && e.Target.Object != of.Target.Object && e.Owner == plan.OwnerPlace && listed(e.Intent).Intersects(cpus)
	})) > 0
}

// listed is the list that a value is, empty for none.
func listed(v plan.Value) cpuset.Set {
	set, _, err := cgroup.Value(v).List()
	if err != nil {
		return cpuset.Set{}
	}
	return set
}

// OriginalCPUs are those that the group would have without Berth: the list that the
// journal or the group has, else that of the next group above which has one. A group
// without any may have every CPU of the machine, also those that are offline.
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

// HasProcesses says whether a process is in the group or below it, also where that cannot be read of a
// group that is there.
func (g *Groups) HasProcesses(path string) bool {
	some, err := cgroup.HasProcesses(g.Host, path)
	return some || err != nil
}

// OriginalLimit is the limit of the group's own without Berth, 0 for none or where that is not
// known.
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

// originalList is the list of a group's own without Berth, cgroup.Inherit for none.
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
		if cgroup.IsUnlimited(group, cgroup.KnobCPUs, list) { // what a group with processes has where it was to inherit again
			list = cgroup.Inherit
		}
		return nil
	})
	return list, err
}

// isOf says whether the group, which has this value, is the one that an entry speaks of, also
// where systemd has made a service's group again with Berth's list.
func isOf(e journal.Entry, group *cgroup.Group, v cgroup.Value) bool {
	id, err := group.ID(cgroupfile.Knob(e.Target).Controller())
	return err == nil && e.IsOf(cgroupfile.Values(), cgroupfile.Identity(id), plan.Value(v))
}

// stands returns the list of the group of an entry, and whether that is the group which the entry is about.
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
