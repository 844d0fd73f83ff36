package cgroup

import (
	"errors"
	"strings"

	"github.com/berth-project/berth/internal/kernel"
)

// pidsFile counts the tasks in a group and below it, on either version. A task counts until it is reaped.
const pidsFile = "pids.current"

// HasProcesses reports whether a process is in the group at path or below it, also one without an id here. A group
// that is gone has none. With an error it is not known.
//
// On v1 a reader that does not see all threads goes by the controller pids. Without that controller a group
// has processes for as long as it is there.
func HasProcesses(host Opener, path string) (bool, error) {
	some, err := Peek(host, path, func(g *Group) (bool, error) {
		pids, foreign, err := g.Processes()
		return len(pids)+foreign > 0, err
	})
	if errors.Is(err, ErrNoGroup) {
		return false, nil
	}
	return some, err
}

// omits reports whether the lists of the hierarchy of c lack tasks: v1 leaves out those without an id in the reader's
// pid namespace (pidlist_array_load, kernel/cgroup/cgroup-v1.c).
func (h *Host) omits(c Controller) bool {
	return h.controllers[c].Version == 1 && !kernel.SeesAllThreads()
}

// mayHaveTasks reports whether the group at path, or one below it, may have tasks that no list has.
func (h *Host) mayHaveTasks(path string) bool {
	text, err := h.tasksAt(path)
	switch {
	case err == nil:
		return text != "0"
	case vanished(err):
		return !h.lost(path)
	default:
		return true
	}
}

// lost reports whether the hierarchy of pids has lost the group, and so its last task: whoever makes a group for a
// container makes it in every hierarchy, and the kernel removes none that has tasks. It is known by a group above
// in that hierarchy. systemd removes a scope there, and leaves it in the hierarchy of cpuset, which is the runtime's.
func (h *Host) lost(path string) bool {
	if _, err := h.root.ID(h.controllers[PIDs].Mount + "/" + path); !vanished(err) {
		return false
	}
	for _, above := range ancestors(path) {
		if _, err := h.tasksAt(above); err == nil {
			return true
		}
	}
	return false
}

// tasksAt reads how many tasks the group at path has.
func (h *Host) tasksAt(path string) (string, error) {
	hier, err := h.Hierarchy(PIDs)
	if err != nil {
		return "", err
	}
	data, err := h.root.ReadFile(hier.Mount + "/" + path + "/" + pidsFile)
	return strings.TrimSpace(string(data)), err
}
