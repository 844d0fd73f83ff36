package scratch

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/hostwrite"
)

const subtreeFile = "cgroup.subtree_control"

// enabled is a controller that was switched on for the groups below dir, a
// directory name within the host's root.
type enabled struct {
	dir        string
	controller cgroup.Controller
	neighbours []string // the groups that were below dir at that time
}

// enable switches the controllers on for the groups below parent, on v2, from
// the root down. A non-root group that holds processes itself answers EBUSY:
// cgroup v2 has no processes in inner groups.
func (g *Group) enable(parent string) error {
	for _, c := range []cgroup.Controller{cgroup.CPU, cgroup.CPUSet} {
		hier, err := g.host.Hierarchy(c)
		if err != nil || hier.Version == 1 {
			continue
		}
		dir := hier.Mount
		if err := g.enableIn(dir, c); err != nil {
			return err
		}
		for element := range strings.SplitSeq(parent, "/") {
			if element == "" { // parent is the root
				continue
			}
			dir += "/" + element
			if err := g.enableIn(dir, c); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *Group) enableIn(name string, c cgroup.Controller) error {
	data, err := g.host.Root().ReadFile(name + "/" + subtreeFile)
	if err != nil {
		return fmt.Errorf("enable %s: %w", c, err)
	}
	if slices.Contains(strings.Fields(string(data)), string(c)) {
		return nil
	}
	before, err := groupsIn(g.host.Root(), name)
	if err != nil {
		return fmt.Errorf("enable %s: %w", c, err)
	}
	if err := write(g.host.Root(), name, subtreeFile, "+"+string(c)); err != nil {
		return fmt.Errorf("enable %s: %w", c, err)
	}
	g.enabled = append(g.enabled, enabled{name, c, before})
	return nil
}

// disable undoes enable, from the deepest group up. A controller stays on
// where groups were made meanwhile, because they may rely on it, and switching
// it off would take their limits away.
func (g *Group) disable() error {
	var errs []error
	for _, e := range slices.Backward(g.enabled) {
		now, err := groupsIn(g.host.Root(), e.dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		relied := slices.ContainsFunc(now, func(name string) bool { return !slices.Contains(e.neighbours, name) })
		if err == nil && !relied {
			err = write(g.host.Root(), e.dir, subtreeFile, "-"+string(e.controller))
		}
		errs = append(errs, err)
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
