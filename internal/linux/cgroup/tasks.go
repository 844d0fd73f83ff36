package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// The files that list the threads of a group.
const (
	v2ThreadsFile = "cgroup.threads"
	v1ThreadsFile = "tasks"
)

// Tasks is the threads of one group and the group's effective CPUs.
type Tasks struct {
	CPUs cpuset.Set
	TIDs []int
}

// Tasks returns the threads that a change of the group's CPUs affects. On v2 these include the threads of all groups
// below; on v1, where each group has its own list, only the threads of the group. foreign counts threads outside the
// reader's pid namespace, which have no id there; on v1 it is 1 if such threads may exist. Groups that vanish during
// the call are ignored. The errors are those of EffectiveCPUs.
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
			foreign = 1 // the actual number is unknown
		}
		return []Tasks{{own, tids}}, foreign, err
	}
	cpus := map[string]cpuset.Set{path.Dir(top): own}
	err = g.host.walk(top, func(dir string, _ int) error {
		has, err := g.host.readList(dir + "/" + placesOf(KnobCPUs).v2Effective)
		if errors.Is(err, fs.ErrNotExist) { // without the controller the CPUs of the group above apply
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

// Threads returns the number of threads in a group of the host and all groups below it, or 0 if it is unknown: v1 does
// not list threads outside the reader's pid namespace. Groups that vanish during the call are ignored. The errors are
// those of Procs.
func (h *Host) Threads(g *Group) (n int, err error) {
	tids, foreign, err := h.listThreads(g)
	return len(tids) + foreign, err
}

// ThreadIDs returns the ids of the threads in a group and all groups below it. foreign counts the threads without an id
// here; on v1 it is 1 if such threads may exist.
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
