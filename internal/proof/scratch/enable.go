package scratch

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/engine/hostwrite"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
)

const subtreeFile = "cgroup.subtree_control"

// enabled is a controller that was switched on for the groups below dir, a directory name within the host's root.
type enabled struct {
	dir        string
	controller cgroup.Controller
	owner      int      // the process that did it
	neighbours []string // the groups that were below dir at that time
}

// enabling returns the controllers that every scratch group has on v2.
func enabling() []cgroup.Controller { return []cgroup.Controller{cgroup.CPU, cgroup.CPUSet} }

// enable switches the controllers on for the groups below parent, on v2, from the root down. The kernel returns EBUSY
// for a non-root group that has processes itself: cgroup v2 has no processes in inner groups.
func (g *Group) enable(parent string, controllers []cgroup.Controller) error {
	for _, c := range controllers {
		hier, err := g.host.Hierarchy(c)
		if err != nil || hier.Version == 1 {
			continue
		}
		for _, dir := range downTo(hier.Mount, parent) {
			if err := g.enableIn(dir, c); err != nil {
				return fmt.Errorf("enable %s: %w", c, err)
			}
		}
	}
	return nil
}

// downTo returns the directories from mount down to the group at path.
func downTo(mount, path string) []string {
	dirs := []string{mount}
	for element := range strings.SplitSeq(path, "/") {
		if element != "" { // path is the root
			dirs = append(dirs, dirs[len(dirs)-1]+"/"+element)
		}
	}
	return dirs
}

func (g *Group) enableIn(name string, c cgroup.Controller) error {
	root := g.host.Root()
	data, err := root.ReadFile(name + "/" + subtreeFile)
	if err != nil {
		return fmt.Errorf("what is enabled: %w", err)
	}
	if slices.Contains(strings.Fields(string(data)), string(c)) {
		return nil
	}
	before, err := groupsIn(root, name)
	if err != nil {
		return err
	}
	e := enabled{dir: name, controller: c, owner: os.Getpid(), neighbours: before}
	if err := note(root, e); err != nil {
		return err
	}
	if err := write(root, name, subtreeFile, "+"+string(c)); err != nil {
		return errors.Join(err, forget(root, e))
	}
	g.enabled = append(g.enabled, e)
	return nil
}

// disable undoes enable, from the deepest group up.
func (g *Group) disable() error {
	var errs []error
	for _, e := range slices.Backward(g.enabled) {
		errs = append(errs, undo(g.host.Root(), e))
	}
	g.enabled = nil
	return errors.Join(errs...)
}

// groupsIn returns the names of the groups directly in the directory name.
func groupsIn(root *hostfs.Root, name string) ([]string, error) {
	entries, err := root.ReadDir(name)
	if err != nil {
		return nil, fmt.Errorf("list groups: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// write writes one file of the directory called name.
func write(root *hostfs.Root, name, file, content string) error {
	dir, err := root.Dir(name)
	if err != nil {
		return fmt.Errorf("write %q to %s: %w", content, file, err)
	}
	return errors.Join(hostwrite.Existing(dir, file, content), dir.Close())
}
