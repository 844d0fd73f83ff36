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

	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/kernel"
)

// Controller is a kernel resource controller that Berth uses.
type Controller string

const (
	// CPU has the bandwidth limit and its statistics.
	CPU Controller = "cpu"
	// CPUAcct has the usage counter. On v2 it is part of every group.
	CPUAcct Controller = "cpuacct"
	// CPUSet has the CPUs a group may run on.
	CPUSet Controller = "cpuset"
	// MemoryController has the memory charged to a group, by NUMA node. Not every
	// host has it, and a group need not: see Group.Memory.
	MemoryController Controller = "memory"
	// HugeTLB has the huge pages of pools that a group uses; as optional as memory.
	HugeTLB Controller = "hugetlb"
	// PIDs counts the tasks of a group and of those below it, whatever pid namespace they are in.
	PIDs Controller = "pids"
)

// Controllers returns the controllers that make a group one of Berth's. The
// optional ones, memory, hugetlb and pids, are not among them.
func Controllers() []Controller { return []Controller{CPU, CPUAcct, CPUSet} }

func optional() []Controller { return []Controller{MemoryController, HugeTLB, PIDs} }

const (
	mountinfoFile   = "proc/self/mountinfo"
	controllersFile = "cgroup.controllers"
)

// Host is the set of cgroup hierarchies of one host. It is safe for
// concurrent use. Mounts made after Open are not noticed.
type Host struct {
	root        *hostfs.Root
	controllers map[Controller]Hierarchy
	unified     bool // a v2 hierarchy is mounted, with or without controllers
	allSeen     bool // every process of the host has an id here; not of a recorded host

	mu sync.Mutex
	// tops are the directories of the hierarchies' roots, held since their first use.
	tops map[string]*hostfs.Dir
}

// Open finds the hierarchies of the host below root, from
// /proc/self/mountinfo. A host without any is ErrNoHierarchy; one that lacks
// a controller is an error only where that controller is needed.
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

// find notes the v1 hierarchies of the controllers.
func (h *Host) find(mounts []*mountinfo.Info, controllers []Controller) {
	for _, c := range controllers {
		if best, ok := choose(mounts, c); ok {
			h.controllers[c] = best
		}
	}
}

// claim gives the controllers that no v1 hierarchy has to the v2 one, as far
// as it has them.
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

// Root returns the tree the host was opened with.
func (h *Host) Root() *hostfs.Root { return h.root }

// Hierarchy returns where the controller lives. The error is ErrNoHierarchy.
func (h *Host) Hierarchy(c Controller) (Hierarchy, error) {
	hier, ok := h.controllers[c]
	if !ok {
		return Hierarchy{}, fmt.Errorf("controller %s: %w", c, ErrNoHierarchy)
	}
	return hier, nil
}

// dir holds the directory of a group in the hierarchy that is mounted there.
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

// Layout returns "v1" when only v1 hierarchies are mounted, "v2" when none of
// Berth's controllers is in one, and "hybrid" otherwise.
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
