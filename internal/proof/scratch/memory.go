package scratch

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	"github.com/berth-project/berth/internal/engine/hostwrite"
	"github.com/berth-project/berth/internal/linux/cgroup"
)

// optional returns the controllers that WithMemory gives a group.
func optional() []cgroup.Controller {
	return []cgroup.Controller{cgroup.MemoryController, cgroup.HugeTLB}
}

// WithMemory gives the group the optional controllers memory and hugetlb, as far as the host has them. Call it before a
// process is attached to the group. On v2 it enables the controllers above the group; in a hierarchy of their own it
// makes a group of the same path. The group above needs them first, unless it is the root. ErrNoHierarchy of package
// cgroup says that the host has no memory controller.
func (g *Group) WithMemory() error {
	if _, err := g.host.Hierarchy(cgroup.MemoryController); err != nil {
		return fmt.Errorf("memory of %q: %w", g.path, err)
	}
	parent := ""
	if above := g.handle.Ancestors(); len(above) > 0 {
		parent = above[0]
	}
	if err := g.enable(parent, optional()); err != nil {
		return fmt.Errorf("group %q: %w", g.path, err)
	}
	for _, hier := range g.others() {
		if err := hostwrite.MakeDir(g.host.Root(), hier.Mount+"/"+g.path); err != nil {
			return fmt.Errorf("group %q: %w", g.path, err)
		}
	}
	return nil
}

// others returns the hierarchies of the optional controllers in which New makes no directory.
func (g *Group) others() []cgroup.Hierarchy {
	have := hierarchies(g.host, cgroup.Controllers())
	return slices.DeleteFunc(hierarchies(g.host, optional()), func(hier cgroup.Hierarchy) bool {
		return slices.Contains(have, hier)
	})
}

// attachMemory moves a process into the groups that WithMemory made.
func (g *Group) attachMemory(pid int) error {
	for _, hier := range g.others() {
		err := write(g.host.Root(), hier.Mount+"/"+g.path, procsFile, strconv.Itoa(pid))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
