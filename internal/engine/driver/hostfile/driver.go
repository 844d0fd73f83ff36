package hostfile

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/hostwrite"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/knob"
)

// Values returns what the kind says about its values without a host.
func Values() plan.Kinds { return plan.Kinds{Driver: {Same: same, Mangled: rescaled, Part: part}} }

// Kinds returns the kind of target for the host below root.
func Kinds(root *hostfs.Root) apply.Kinds {
	return apply.Of(Values(), func(call apply.Call) apply.Driver {
		return &files{root: root, call: call, trees: make(map[string]*hostfs.Root), dirs: make(map[string]*hostfs.Dir)}
	})
}

// files is the driver. It opens each directory once per call, so that all reads and writes of the call use the same
// directory.
type files struct {
	root  *hostfs.Root
	call  apply.Call
	trees map[string]*hostfs.Root
	dirs  map[string]*hostfs.Dir
}

// dir returns the directory of a target, opened beneath its tree: a symbolic link cannot lead outside.
func (f *files) dir(t plan.Target) (*hostfs.Dir, error) {
	name, below, err := split(t)
	if err != nil {
		return nil, err
	}
	if d := f.dirs[t.Object]; d != nil {
		return d, nil
	}
	tree, err := f.tree(name)
	if err != nil {
		return nil, err
	}
	d, err := tree.Dir(below)
	if errors.Is(err, fs.ErrNotExist) {
		if hidden := hides(tree, below); hidden != nil {
			err = fmt.Errorf("%w: %w", hidden, err)
		}
	}
	if err != nil {
		return nil, classify(err)
	}
	if err := inside(tree, d.ID(), d.Path()); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	f.dirs[t.Object] = d
	return d, nil
}

// tree returns an open tree.
func (f *files) tree(name string) (*hostfs.Root, error) {
	if tree := f.trees[name]; tree != nil {
		return tree, nil
	}
	tree, err := hostfs.Open(f.root.Join(name))
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", ErrHidden, err)
	}
	if err == nil && name == debugfs {
		if err = f.debugfs(tree); err != nil {
			err = errors.Join(err, tree.Close())
		}
	}
	if err != nil {
		return nil, classify(err)
	}
	f.trees[name] = tree
	return tree, nil
}

// debugfs refuses another file system at that place. If none is mounted, as in recorded trees, the place is a
// directory of sysfs.
func (f *files) debugfs(tree *hostfs.Root) error {
	if tree.IsDebugfs() {
		return nil
	}
	sys, err := f.tree(sysfs)
	if err != nil {
		return err
	}
	id, err := tree.ID(".")
	if err != nil {
		return err
	}
	return inside(sys, id, tree.Path())
}

// hides returns nil if a missing directory is really gone: an existing directory above it, below the tree's top, is in
// the tree's own file system. Otherwise it returns why the missing directory may exist.
func hides(tree *hostfs.Root, dir string) error {
	for above := path.Dir(dir); above != "/"; above = path.Dir(above) {
		if id, err := tree.ID(above); err == nil {
			return inside(tree, id, tree.Join(above))
		}
	}
	return ErrHidden // the subsystem is missing, or the tree is empty
}

// inside returns ErrOutside if a file is in another file system than its tree.
func inside(tree *hostfs.Root, id hostfs.ID, name string) error {
	home, err := tree.ID(".")
	if err == nil && home.Dev != id.Dev {
		return fmt.Errorf("%s is in another file system than %s: %w", name, tree.Path(), ErrOutside)
	}
	return err
}

// Close closes the directories and trees.
func (f *files) Close() error {
	var errs []error
	for _, d := range f.dirs {
		errs = append(errs, d.Close())
	}
	for _, tree := range f.trees {
		errs = append(errs, tree.Close())
	}
	clear(f.dirs)
	clear(f.trees)
	return errors.Join(errs...)
}

// Read returns the value of a file and its identity.
func (f *files) Read(t plan.Target) (plan.Value, plan.Identity, error) {
	d, err := f.dir(t)
	if err != nil {
		return "", "", err
	}
	id, err := f.identity(d, t)
	if err != nil {
		return "", "", classify(err)
	}
	v, err := awake(d, t)
	return v, id, read(t, err)
}

// awake reads the value of a file. The error is EBUSY for a frequency policy without online CPUs, even if the kernel
// still shows a value.
func awake(d *hostfs.Dir, t plan.Target) (plan.Value, error) {
	v, err := value(d, t)
	if err != nil || !knob.InPolicy(file(t)) {
		return v, err
	}
	cpus, err := d.ReadFile(knob.PolicyCPUs)
	if err == nil && strings.TrimSpace(string(cpus)) == "" {
		return "", fmt.Errorf("%s/%s is empty: %w", d.Path(), knob.PolicyCPUs, syscall.EBUSY)
	}
	return v, nil // the policy's CPUs need not be known
}

// value reads the requested value: from the file itself, or from the file beside it if the file shows only a part of
// the request.
func value(d *hostfs.Dir, t plan.Target) (plan.Value, error) {
	if beside := place(t).Now; beside != "" {
		text, err := d.ReadFile(beside)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return parse(t, string(text)), err
		}
	}
	text, err := d.ReadFile(t.Knob)
	return parse(t, string(text)), err
}

// identity returns the identity of a file: the inode in sysfs, the name of a sysctl. For a sysctl of a network
// interface the index of the interface follows the name.
func (f *files) identity(d *hostfs.Dir, t plan.Target) (plan.Identity, error) {
	id, _, err := stat(d, t.Knob)
	if err != nil {
		return "", err
	}
	if tree, _, err := split(t); err != nil || tree == sysfs {
		return plan.Identity(id.String()), err
	}
	name := plan.Identity(file(t))
	face := networkInterface(t)
	if face == "" {
		return name, nil
	}
	index, err := f.root.ReadFile(path.Join(interfaces, face, "ifindex"))
	if err != nil {
		return "", fmt.Errorf("which network interface %s is: %w: %w", face, ErrHidden, err)
	}
	return name + plan.Identity(" of interface "+strings.TrimSpace(string(index))), nil
}

// stat describes a file. The error is ErrOutside if another file system is mounted on the file.
func stat(d *hostfs.Dir, name string) (hostfs.ID, fs.FileMode, error) {
	id, mode, err := d.Stat(name)
	if err == nil && id.Dev != d.ID().Dev {
		err = fmt.Errorf("%s/%s is in another file system than its directory: %w", d.Path(), name, ErrOutside)
	}
	return id, mode, err
}

// Write writes the value of a change and reads it back.
func (f *files) Write(c plan.Change) (plan.Value, error) {
	d, err := f.dir(c.Target)
	if err != nil {
		return "", err
	}
	if err := writable(d, c.Knob); err != nil {
		return "", classify(err)
	}
	if err := hostwrite.Existing(d, c.Knob, string(c.Value)); err != nil {
		if _, unread := awake(d, c.Target); errors.Is(unread, syscall.EBUSY) {
			return "", read(c.Target, unread)
		}
		return "", classify(err)
	}
	f.call.Written(c.Target)
	if err := again(d, c.Target); err != nil {
		return "", classify(err)
	}
	effective, err := value(d, c.Target)
	if err != nil {
		return "", read(c.Target, err)
	}
	if part(c.Target, effective, c.From, c.Value) && effective != c.Value {
		return effective, fmt.Errorf("wrote %s, the kernel has %s: %w", c.Value, effective, apply.ErrPartly)
	}
	if !same(c.Target, effective, c.Value) {
		return effective, fmt.Errorf("wrote %s, the kernel has %s: %w", c.Value, effective, apply.ErrNotEffective)
	}
	return effective, nil
}

// again writes the file of knob.Place.Again with its present value. A kernel without that file has no second copy.
func again(d *hostfs.Dir, t plan.Target) error {
	file := place(t).Again
	if file == "" {
		return nil
	}
	text, err := d.ReadFile(path.Base(file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return hostwrite.Existing(d, path.Base(file), strings.TrimSpace(string(text)))
}

// writable refuses a file that the kernel lets nobody write. Root could open a read-only file of an ordinary file
// system for writing, but not a kernel's.
func writable(d *hostfs.Dir, name string) error {
	_, mode, err := stat(d, name)
	if err == nil && mode&0o222 == 0 {
		return fmt.Errorf("%s/%s has mode %v: %w", d.Path(), name, mode, ErrReadOnly)
	}
	return err
}

// Locate implements apply.Locator.
func (f *files) Locate(t plan.Target, _ plan.Value) string {
	return f.root.Join(file(t))
}

// read wraps the error of a read: EBUSY means that all CPUs of the frequency policy are offline. A write of the
// policy's energy preference is EBUSY at other times, too.
func read(t plan.Target, err error) error {
	if errors.Is(err, syscall.EBUSY) && knob.InPolicy(file(t)) {
		return fmt.Errorf("%w: its CPUs are offline: %w", apply.ErrNotInForce, err)
	}
	return classify(err)
}

// classify wraps an answer of the kernel in the error that it means. A missing file is ErrAbsent and apply.ErrGone,
// since only the kernel creates such files, unless it is hidden.
func classify(err error) error {
	switch {
	case err == nil, errors.Is(err, ErrHidden), errors.Is(err, ErrOutside):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w: %w", apply.ErrGone, ErrAbsent, err)
	case errors.Is(err, hostfs.ErrGone):
		return fmt.Errorf("%w: %w", apply.ErrGone, err)
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	case errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ERANGE), errors.Is(err, syscall.EBUSY):
		return fmt.Errorf("%w: %w", apply.ErrRefused, err)
	}
	return err
}
