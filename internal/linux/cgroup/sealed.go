package cgroup

import (
	"fmt"
	"os"
	"slices"
)

// Sealed reports whether the kernel refuses this process, whatever its rights, to write the limits of its own group. On
// a v2 hierarchy mounted with nsdelegate, a process in its own cgroup namespace cannot change the namespace's root
// group (cgroup-v2.rst, "Delegation"). Container runtimes put a container into such a group.
func (h *Host) Sealed() (bool, error) {
	hier, err := h.Hierarchy(CPUSet)
	if err != nil {
		return false, err
	}
	if hier.Version == 1 || !hier.Delegates {
		return false, nil
	}
	list, err := h.memberships(os.Getpid())
	if err != nil {
		return false, fmt.Errorf("own group: %w", err)
	}
	return slices.ContainsFunc(list, func(m membership) bool {
		return len(m.controllers) == 0 && m.path == "/"
	}), nil
}
