package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/berth-project/berth/internal/cpuset"
)

// The files with the threads of a group.
const (
	v2ThreadsFile = "cgroup.threads"
	v1ThreadsFile = "tasks"
)

// Tasks are the threads of one group, and the CPUs that the group has in effect.
type Tasks struct {
	CPUs cpuset.Set
	TIDs []int
}

// Tasks returns the threads that a change of the group's CPUs reaches: on v2 those of all
// groups below as well, on v1, where each group has a list of its own, those of the group.
// foreign counts the threads outside the reader's pid namespace, which have no id there;
// on v1 it is 1 where there may be some.
// Groups that vanish meanwhile are passed over. The errors are those of EffectiveCPUs.
func (g *Group) Tasks() (all []Tasks, foreign int, err error) {
	own, err := g.EffectiveCPUs()
	if err != nil {
		return nil, 0, err
	}
	hier, err := g.host.Hierarchy(CPUSet)
	if err != nil {
		return nil, 0, err
	}
	top := hier.Mount + "/" + g.path
	if hier.Version == 1 {
		tids, foreign, err := g.host.idsIn(top, v1ThreadsFile)
		if vanished(err) {
			return nil, 0, nil
		}
		if len(tids) == 0 && g.host.omits(CPUSet) {
			foreign = 1 // which there are is not known
		}
		return []Tasks{{own, tids}}, foreign, err
	}
	cpus := map[string]cpuset.Set{path.Dir(top): own}
	err = g.host.walk(top, func(dir string, _ int) error {
		has, err := g.host.readList(dir + "/" + placesOf(KnobCPUs).v2Effective)
		if errors.Is(err, fs.ErrNotExist) { // without the controller: what the group above has
			has, err = cpus[path.Dir(dir)], nil
		}
		if err != nil {
			return ignoreVanished(err)
		}
		cpus[dir] = has
		tids, unseen, err := g.host.idsIn(dir, v2ThreadsFile)
		all, foreign = append(all, Tasks{has, tids}), foreign+unseen
		return ignoreVanished(err)
	})
	return all, foreign, err
}

// Threads counts the threads in a group of the host and all groups below it, 0 where that is not known: on
// v1 the kernel leaves out those outside the reader's pid namespace. Groups that vanish meanwhile
// are passed over; the errors are those of Procs.
func (h *Host) Threads(g *Group) (n int, err error) {
	tids, foreign, err := h.listThreads(g)
	return len(tids) + foreign, err
}

// ThreadIDs returns the ids of these threads. foreign counts those that have none here; on v1 it
// is 1 where there may be some.
func (h *Host) ThreadIDs(g *Group) (tids []int, foreign int, err error) {
	tids, foreign, err = h.listThreads(g)
	if err == nil && len(tids) == 0 && h.omits(g.home()) {
		foreign = 1
	}
	return tids, foreign, err
}

func (h *Host) listThreads(g *Group) (tids []int, foreign int, err error) {
	top, err := g.top()
	if err != nil {
		return nil, 0, err
	}
	file := v2ThreadsFile
	if h.controllers[g.home()].Version == 1 {
		file = v1ThreadsFile
	}
	err = h.walk(top, func(dir string, _ int) error {
		found, unseen, err := h.idsIn(dir, file)
		tids, foreign = append(tids, found...), foreign+unseen
		return ignoreVanished(err)
	})
	if err != nil {
		return nil, 0, fmt.Errorf("threads of %q: %w", g.path, err)
	}
	return tids, foreign, nil
}

func ignoreVanished(err error) error {
	if vanished(err) {
		return nil
	}
	return err
}
