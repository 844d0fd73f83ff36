package cgroup

import (
	"errors"
	"strings"

	"github.com/berth-project/berth/internal/linux/kernel"
)

// pidsFile counts the tasks in a group and below it, on both versions. The kernel counts a task until it is reaped.
const pidsFile = "pids.current"

// HasProcesses reports whether the group at path, or a group below it, contains a process, including processes without
// an id here. A removed group has no processes. On error the answer is unknown.
//
// On v1, a reader that does not see all threads uses the controller pids. Without that controller, a group counts as
// populated for as long as it exists.
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

// omits reports whether the lists of the hierarchy of c lack tasks. v1 leaves out tasks without an id in the reader's
// pid namespace (pidlist_array_load, kernel/cgroup/cgroup-v1.c).
func (h *Host) omits(c Controller) bool {
	return h.controllers[c].Version == 1 && !kernel.SeesAllThreads()
}

// mayHaveTasks reports whether the group at path, or a group below it, may have tasks that no list shows.
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

// lost reports whether the pids hierarchy no longer has the group, and the group therefore has no task left. A
// container's group is made in every hierarchy, and the kernel removes no group that has tasks. A group above must
// exist in the pids hierarchy as evidence. systemd removes a scope there, but leaves it in the cpuset hierarchy, which
// the runtime manages.
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

// tasksAt returns the number of tasks of the group at path, as text.
func (h *Host) tasksAt(path string) (string, error) {
	hier, err := h.Hierarchy(PIDs)
	if err != nil {
		return "", err
	}
	data, err := h.root.ReadFile(hier.Mount + "/" + path + "/" + pidsFile)
	return strings.TrimSpace(string(data)), err
}
