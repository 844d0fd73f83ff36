package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/moby/sys/mountinfo"

	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
)

// Controller is a kernel resource controller that Berth uses.
type Controller string

const (
	// CPU has the bandwidth limit and its statistics.
	CPU Controller = "cpu"
	// CPUAcct has the usage counter. On v2 it is part of every group.
	CPUAcct Controller = "cpuacct"
	// CPUSet has the CPUs that a group may run on.
	CPUSet Controller = "cpuset"
	// MemoryController has the memory charged to a group, by NUMA node. A host or a group may lack it: see
	// Group.Memory.
	MemoryController Controller = "memory"
	// HugeTLB has the huge pages of pools that a group uses. It is optional, like memory.
	HugeTLB Controller = "hugetlb"
	// PIDs counts the tasks of a group and the groups below it, in all pid namespaces.
	PIDs Controller = "pids"
)

// Controllers returns the controllers that Berth requires of a group. The optional controllers memory, hugetlb and pids
// are not included.
func Controllers() []Controller { return []Controller{CPU, CPUAcct, CPUSet} }

func optional() []Controller { return []Controller{MemoryController, HugeTLB, PIDs} }

const (
	mountinfoFile   = "proc/self/mountinfo"
	controllersFile = "cgroup.controllers"
)

// Host is the set of cgroup hierarchies of one host. It is safe for concurrent use. It does not notice mounts made
// after Open.
type Host struct {
	root        *hostfs.Root
	controllers map[Controller]Hierarchy
	unified     bool // a v2 hierarchy is mounted, with or without controllers
	allSeen     bool // every process of the host has an id here; false for a recorded host

	mu sync.Mutex
	// tops are the directories of the hierarchies' roots, kept open after first use.
	tops map[string]*hostfs.Dir
}

// Open finds the hierarchies of the host below root, from /proc/self/mountinfo. It returns ErrNoHierarchy for a host
// without any hierarchy. A missing controller is an error only when an operation needs it.
func Open(root *hostfs.Root) (*Host, error) {
	data, err := root.ReadFile(mountinfoFile)
	if err != nil {
		return nil, fmt.Errorf("find cgroup mounts: %w", err)
	}
	mounts, err := mountinfo.GetMountsFromReader(bytes.NewReader(data), nil)
	if err != nil {
		return nil, fmt.Errorf("find cgroup mounts in %s: %w: %w", root.Join(mountinfoFile), ErrMalformed, err)
	}
	h := &Host{
		root: root, controllers: map[Controller]Hierarchy{}, tops: map[string]*hostfs.Dir{},
		allSeen: root.Path() == "/" && kernel.SeesEachThread(),
	}
	h.find(mounts, Controllers())
	unified, ok := choose(mounts, "")
	if !ok && len(h.controllers) == 0 {
		return nil, fmt.Errorf("%s: %w", root.Join(mountinfoFile), ErrNoHierarchy)
	}
	h.find(mounts, optional())
	h.unified = ok
	if ok {
		return h, h.claim(unified)
	}
	return h, nil
}

// find records the v1 hierarchies of the controllers.
func (h *Host) find(mounts []*mountinfo.Info, controllers []Controller) {
	for _, c := range controllers {
		if best, ok := choose(mounts, c); ok {
			h.controllers[c] = best
		}
	}
}

// claim assigns to the v2 hierarchy the controllers that it has and that no v1 hierarchy has.
func (h *Host) claim(unified Hierarchy) error {
	data, err := h.root.ReadFile(unified.Mount + "/" + controllersFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("controllers of cgroup v2: %w", err)
	}
	available := strings.Fields(string(data))
	for _, c := range slices.Concat(Controllers(), optional()) {
		if _, taken := h.controllers[c]; !taken && (c == CPUAcct || contains(available, c)) {
			h.controllers[c] = unified
		}
	}
	return nil
}

func contains(names []string, c Controller) bool {
	return slices.Contains(names, string(c))
}

// Root returns the tree that the host was opened with.
func (h *Host) Root() *hostfs.Root { return h.root }

// Hierarchy returns the hierarchy of the controller. The error is ErrNoHierarchy.
func (h *Host) Hierarchy(c Controller) (Hierarchy, error) {
	hier, ok := h.controllers[c]
	if !ok {
		return Hierarchy{}, fmt.Errorf("controller %s: %w", c, ErrNoHierarchy)
	}
	return hier, nil
}

// dir opens the directory of a group in the hierarchy mounted at mount.
func (h *Host) dir(mount, path string) (*hostfs.Dir, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	top := h.tops[mount]
	if top == nil {
		var err error
		if top, err = h.root.Dir(mount); err != nil {
			return nil, err
		}
		h.tops[mount] = top
	}
	return top.Dir(path)
}

// Layout returns "v1" if only v1 hierarchies are mounted, "v2" if no v1 hierarchy has one of Berth's controllers, and
// "hybrid" otherwise.
func (h *Host) Layout() string {
	for _, c := range Controllers() {
		if h.controllers[c].Version == 1 && h.unified {
			return "hybrid"
		}
		if h.controllers[c].Version == 1 {
			return "v1"
		}
	}
	return "v2"
}
