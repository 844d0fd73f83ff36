package scratch

import (
	"errors"
	"fmt"
	"strings"

	"github.com/berth-project/berth/internal/engine/hostwrite"
	"github.com/berth-project/berth/internal/linux/cgroup"
)

// Leaf makes the group name below parent for processes only: in the hierarchy of the cpu controller, and without
// enabling anything in the groups above. On v2 the processes of a delegated group have to move there before controllers
// can be enabled for the groups below it.
func Leaf(host *cgroup.Host, parent, name string) (*Group, error) {
	if !strings.HasPrefix(name, Prefix) || strings.Contains(name, "/") || cgroup.CheckPath(name) != nil {
		return nil, fmt.Errorf("%w: %q, must be one path element that starts with %s", ErrBadName, name, Prefix)
	}
	hier, err := host.Hierarchy(cgroup.CPU)
	if err != nil {
		return nil, fmt.Errorf("make group %q: %w", name, err)
	}
	g := &Group{host: host, path: strings.TrimPrefix(parent+"/"+name, "/")}
	if err := hostwrite.MakeDir(host.Root(), hier.Mount+"/"+g.path); err != nil {
		return nil, fmt.Errorf("make group %q: %w", g.path, err)
	}
	if g.handle, err = host.Group(g.path); err != nil {
		return nil, errors.Join(fmt.Errorf("make group %q: %w", g.path, err), g.Close())
	}
	return g, nil
}

// Hold moves a process into the group, only in the hierarchy of the cpu controller, where a Leaf is.
func (g *Group) Hold(pid int) error {
	return g.write(cgroup.CPU, procsFile, fmt.Sprint(pid))
}
