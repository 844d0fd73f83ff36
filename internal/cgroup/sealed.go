package cgroup

import (
	"fmt"
	"os"
	"slices"
)

// Sealed says whether the kernel refuses this process to write the limits of the
// group that it runs in, whatever its rights: on a v2 hierarchy mounted with
// nsdelegate, a process in a cgroup namespace of its own cannot change the group
// that is the namespace's root (cgroup-v2.rst, "Delegation"). That is where a
// container runtime puts a container.
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
