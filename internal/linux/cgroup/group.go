package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/berth-project/berth/internal/linux/hostfs"
)

// bufferSize fits any polled file; cpu.stat is the largest, well below 1 KiB.
const bufferSize = 4096

// Group is a handle on one group in every hierarchy that has it. It is for one goroutine at a time.
type Group struct {
	host *Host
	path string
	// usage and digits serve the one file that is read in every sample. They are adjacent because the group's memory is
	// no longer cached after a sampling period: every untouched cache line saves time.
	usage  *hostfs.File
	digits [24]byte
	// dirs has one entry for each mount point; controllers share them.
	dirs map[string]*hostfs.Dir
	kept map[keptFile]*hostfs.File
	buf  []byte // made by the first read: some groups are only listed
}

type keptFile struct {
	controller Controller
	name       string
}

// Group opens the group at path, relative to each hierarchy's root, in the hierarchies of the given controllers, or by
// default of all Controllers. If none of these hierarchies has the group, the error is ErrNoGroup. If only some have
// it, Group succeeds, and operations that need the other hierarchies fail. A handle does not notice when the group
// appears in another hierarchy later.
func (h *Host) Group(path string, of ...Controller) (*Group, error) {
	if err := CheckPath(path); err != nil {
		return nil, err
	}
	g := &Group{host: h, path: path, dirs: map[string]*hostfs.Dir{}, kept: map[keptFile]*hostfs.File{}}
	var tried []string
	if len(of) == 0 {
		of = Controllers()
	}
	for _, c := range of {
		hier, ok := h.controllers[c]
		if !ok || g.dirs[hier.Mount] != nil {
			continue
		}
		dir, err := h.dir(hier.Mount, path)
		switch {
		case err == nil:
			g.dirs[hier.Mount] = dir
		case errors.Is(err, fs.ErrNotExist):
			tried = append(tried, hier.Mount)
		default:
			return nil, errors.Join(fmt.Errorf("group %q: %w", path, err), g.Close())
		}
	}
	if len(g.dirs) == 0 {
		return nil, fmt.Errorf("%w %q below %s", ErrNoGroup, path, strings.Join(tried, ", "))
	}
	return g, nil
}

// Path returns the group's path relative to each hierarchy's root.
func (g *Group) Path() string { return g.path }

// Ancestors returns the paths above the group, from its parent up, without the root.
func (g *Group) Ancestors() []string { return ancestors(g.path) }

// Dir returns the group's directory in the hierarchy of c, owned by the group. The error is ErrNoHierarchy or
// ErrNoGroup, and its message names the group and the controller.
func (g *Group) Dir(c Controller) (*hostfs.Dir, error) {
	hier, err := g.host.Hierarchy(c)
	if err != nil {
		return nil, fmt.Errorf("group %q: %w", g.path, err)
	}
	dir := g.dirs[hier.Mount]
	if dir == nil {
		return nil, fmt.Errorf("%w %q in the hierarchy of controller %s at %s", ErrNoGroup, g.path, c, hier.Mount)
	}
	return dir, nil
}

// ID returns the identity of the group's directory in the hierarchy of c. A later group of the same name has a
// different identity.
func (g *Group) ID(c Controller) (hostfs.ID, error) {
	dir, err := g.Dir(c)
	if err != nil {
		return hostfs.ID{}, err
	}
	return dir.ID(), nil
}

// Has returns nil if the group exists and has the controller. Otherwise the error is ErrNoHierarchy, ErrNoGroup (also
// for a group removed since it was opened) or ErrNoController. The message of ErrNoController tells where to enable the
// controller.
func (g *Group) Has(c Controller) error {
	dir, err := g.Dir(c)
	if err != nil {
		return err
	}
	if err := dir.Alive(); err != nil {
		return g.missing(c, err)
	}
	if g.host.controllers[c].Version == 1 || c == CPUAcct {
		return nil
	}
	err = enabled(dir, c, g.path)
	if err == nil || errors.Is(err, ErrNoController) {
		return err
	}
	return g.missing(c, err)
}

// enabled returns nil if the v2 group at path, open as dir, has the controller. Otherwise it returns ErrNoController or
// the error of the file system.
func enabled(dir *hostfs.Dir, c Controller, path string) error {
	data, err := dir.ReadFile(controllersFile)
	if err != nil {
		return fmt.Errorf("enabled controllers: %w", err)
	}
	if contains(strings.Fields(string(data)), c) {
		return nil
	}
	return fmt.Errorf("%w: %s for %q: enable it with +%s in cgroup.subtree_control of the groups above",
		ErrNoController, c, path, c)
}

// Close closes all files and directories of the handle.
func (g *Group) Close() error {
	var errs []error
	for key, f := range g.kept {
		errs = append(errs, f.Close())
		delete(g.kept, key)
	}
	for _, d := range g.dirs {
		errs = append(errs, d.Close())
	}
	clear(g.dirs)
	return errors.Join(errs...)
}

// missing maps an error of the file system to this package's classes.
func (g *Group) missing(c Controller, err error) error {
	if errors.Is(err, hostfs.ErrGone) {
		return fmt.Errorf("%w %q in the hierarchy of controller %s: %w", ErrNoGroup, g.path, c, err)
	}
	return fmt.Errorf("group %q: %w", g.path, err)
}

// fileError explains a failed access to the controller's file name: the group is gone, it lacks the controller, or the
// kernel lacks the file.
func (g *Group) fileError(c Controller, name string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return g.missing(c, err)
	}
	if why := g.Has(c); why != nil {
		return why
	}
	return fmt.Errorf("%w: %s of %q: %w", ErrNoKnob, name, g.path, err)
}

// read returns the content of a polled file, without the newline at its end. The content is valid until the group's
// next read.
func (g *Group) read(c Controller, name string) ([]byte, error) {
	f, err := g.keep(c, name)
	if err != nil {
		return nil, err
	}
	if g.buf == nil {
		g.buf = make([]byte, bufferSize)
	}
	data, err := f.Read(g.buf)
	if err != nil {
		return nil, g.missing(c, err)
	}
	return trimmed(data), nil
}

// keep returns a polled file, opened at its first use.
func (g *Group) keep(c Controller, name string) (*hostfs.File, error) {
	key := keptFile{c, name}
	if f := g.kept[key]; f != nil {
		return f, nil
	}
	dir, err := g.Dir(c)
	if err != nil {
		return nil, err
	}
	f, err := dir.Keep(name)
	if err != nil {
		return nil, g.fileError(c, name, err)
	}
	g.kept[key] = f
	return f, nil
}

// trimmed removes the newline, and the NULs of recorded files, from the end.
func trimmed(data []byte) []byte {
	for len(data) > 0 && (data[len(data)-1] == '\n' || data[len(data)-1] == 0) {
		data = data[:len(data)-1]
	}
	return data
}
