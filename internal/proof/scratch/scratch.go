// Package scratch makes control groups that belong to Berth itself, for the demonstration, the benchmarks and the tests
// against the real kernel, and removes them without a trace.
//
// A group is made in the hierarchies of cpu, cpuacct and cpuset, under one path, and in those of memory and hugetlb
// where a test needs them. On v1 a new cpuset has no CPUs and accepts no process, so its parent's CPUs and memory nodes
// are copied into it. On v2 the controllers have to be enabled in every group above. Controllers that were not enabled
// before are recorded, in an extended attribute of the group above, and disabled again when the group is closed.
//
// Names start with "berth-", so that Sweep can never reach a group of another program. Sweep removes what a killed run
// left behind and disables what it enabled.
package scratch

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/berth-project/berth/internal/engine/hostwrite"
	"github.com/berth-project/berth/internal/linux/cgroup"
)

// ErrBadName says that a name is not allowed for a scratch group.
var ErrBadName = errors.New("bad name of a scratch group")

// Prefix is what the names of all scratch groups start with.
const Prefix = "berth-"

// Name returns a name for a group of this process: Prefix, what, and the process id, from which Sweep tells whether the
// owner is alive.
func Name(what string) string { return fmt.Sprintf("%s%s-%d", Prefix, what, os.Getpid()) }

// Group is a group that Berth made, with one handle on it. It is for one goroutine.
type Group struct {
	host    *cgroup.Host
	path    string
	handle  *cgroup.Group
	enabled []enabled // by New above the group, to be undone
}

// New makes the group name below parent; "" is the hierarchies' root, and under systemd parent is a delegated group.
// The error is fs.ErrExist for an existing group, and EROFS for a read-only hierarchy. An error leaves nothing behind.
func New(host *cgroup.Host, parent, name string) (*Group, error) {
	if !strings.HasPrefix(name, Prefix) {
		return nil, fmt.Errorf("%w: %q, must start with %s", ErrBadName, name, Prefix)
	}
	if err := cgroup.CheckPath(parent); err != nil {
		return nil, fmt.Errorf("parent of %s: %w", name, err)
	}
	g := &Group{host: host}
	if err := g.make(parent, name); err != nil {
		return nil, err
	}
	return g, nil
}

// Sub makes a group below g. On v2 a group with groups below it cannot hold processes of its own once their controllers
// are enabled.
func (g *Group) Sub(name string) (*Group, error) {
	sub := &Group{host: g.host}
	if err := sub.make(g.path, name); err != nil {
		return nil, err
	}
	return sub, nil
}

// Path returns the group's path relative to each hierarchy's root.
func (g *Group) Path() string { return g.path }

// Handle returns the group's handle, which Close closes.
func (g *Group) Handle() *cgroup.Group { return g.handle }

// Close kills everything that runs in the group, removes the group and all groups below it, and undoes what New enabled
// above it. It does as much of that as it can. A group that is already gone is no error, and neither is a second Close.
func (g *Group) Close() error {
	if g.host == nil {
		return nil
	}
	var errs []error
	if g.handle != nil {
		errs = append(errs, g.handle.Close())
	}
	errs = append(errs, remove(g.host, g.path), g.disable())
	g.host = nil
	return errors.Join(errs...)
}

func (g *Group) make(parent, name string) error {
	if name == "" || strings.Contains(name, "/") || cgroup.CheckPath(name) != nil {
		return fmt.Errorf("%w: %q, must be one path element", ErrBadName, name)
	}
	g.path = strings.TrimPrefix(parent+"/"+name, "/")
	err := g.build(parent)
	if err != nil {
		return errors.Join(fmt.Errorf("make group %q: %w", g.path, err), g.disable())
	}
	if g.handle, err = g.host.Group(g.path); err == nil {
		err = g.inheritCPUs(parent)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("make group %q: %w", g.path, err), g.Close())
	}
	return nil
}

// build makes the directories. On an error it removes the directories that it made.
func (g *Group) build(parent string) error {
	if err := g.enable(parent, enabling()); err != nil {
		return err
	}
	var made []string
	for _, hier := range hierarchies(g.host, cgroup.Controllers()) {
		dir := hier.Mount + "/" + g.path
		err := hostwrite.MakeDir(g.host.Root(), dir)
		if err == nil {
			made = append(made, dir)
			continue
		}
		errs := []error{err}
		for _, dir := range made {
			errs = append(errs, hostwrite.RemoveDir(g.host.Root(), dir))
		}
		return errors.Join(errs...)
	}
	return nil
}

// hierarchies returns the distinct hierarchies of the controllers.
func hierarchies(host *cgroup.Host, controllers []cgroup.Controller) []cgroup.Hierarchy {
	var list []cgroup.Hierarchy
	seen := map[string]bool{}
	for _, c := range controllers {
		hier, err := host.Hierarchy(c)
		if err == nil && !seen[hier.Mount] {
			seen[hier.Mount] = true
			list = append(list, hier)
		}
	}
	return list
}
