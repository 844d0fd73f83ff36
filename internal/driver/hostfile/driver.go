package hostfile

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/hostwrite"
	"github.com/berth-project/berth/internal/plan"
)

// Values returns what the kind says of its values without a host.
func Values() plan.Kinds { return plan.Kinds{Driver: {Same: same}} }

// Kinds returns the kind of target for the host below root.
func Kinds(root *hostfs.Root) apply.Kinds {
	return apply.Kinds{Driver: {Kind: Values()[Driver], Opener: &opener{root}}}
}

type opener struct{ root *hostfs.Root }

// Open returns a driver for one call.
func (o *opener) Open(call apply.Call) apply.Driver {
	return &files{root: o.root, call: call, trees: make(map[string]*hostfs.Root), dirs: make(map[string]*hostfs.Dir)}
}

// files is the driver. It holds the directories of one call, each opened once: all of
// its reads and writes then mean the same one.
type files struct {
	root  *hostfs.Root
	call  apply.Call
	trees map[string]*hostfs.Root
	dirs  map[string]*hostfs.Dir
}

// dir returns the directory of a target. It is opened beneath its tree, which no link
// leads out of.
func (f *files) dir(t plan.Target) (*hostfs.Dir, error) {
	name, below, err := split(t)
	if err != nil {
		return nil, err
	}
	if d := f.dirs[t.Object]; d != nil {
		return d, nil
	}
	tree := f.trees[name]
	if tree == nil {
		if tree, err = hostfs.Open(f.root.Join(name)); err != nil {
			return nil, classify(err)
		}
		f.trees[name] = tree
	}
	d, err := tree.Dir(below)
	if err != nil {
		return nil, classify(err)
	}
	f.dirs[t.Object] = d
	return d, nil
}

// Close releases the directories.
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
	id, err := identity(d, t)
	if err != nil {
		return "", "", classify(err)
	}
	text, err := d.ReadFile(t.Knob)
	if err != nil {
		return "", id, classify(err)
	}
	return parse(t, string(text)), id, nil
}

// identity is the name of a sysctl, and the inode of a file of sysfs.
func identity(d *hostfs.Dir, t plan.Target) (plan.Identity, error) {
	if tree, _, err := split(t); err != nil || tree == sysctls {
		return plan.Identity(t.Object + "/" + t.Knob), err
	}
	id, _, err := d.Stat(t.Knob)
	return plan.Identity(id.String()), err
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
		return "", classify(err)
	}
	f.call.Written(c.Target)
	text, err := d.ReadFile(c.Knob)
	if err != nil {
		return "", classify(err)
	}
	effective := parse(c.Target, string(text))
	if !same(c.Target, effective, c.Value) {
		return effective, fmt.Errorf("wrote %s, the kernel has %s: %w", c.Value, effective, apply.ErrNotEffective)
	}
	return effective, nil
}

// writable refuses a file that the kernel has for reading only. Root may open such a
// one of an ordinary file system, and of a kernel's not.
func writable(d *hostfs.Dir, name string) error {
	_, mode, err := d.Stat(name)
	if err == nil && mode&0o222 == 0 {
		return fmt.Errorf("%s/%s has mode %v: %w", d.Path(), name, mode, ErrReadOnly)
	}
	return err
}

// Locate is apply.Locator.
func (f *files) Locate(t plan.Target, _ plan.Value) string {
	return f.root.Join(t.Object + "/" + t.Knob)
}

// classify adds what an answer of the kernel means for a file of a kernel: a missing
// one is absent and never made, and what was there before is gone.
func classify(err error) error {
	switch {
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
