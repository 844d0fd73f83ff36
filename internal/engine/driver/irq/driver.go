package irq

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/hostwrite"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Values returns what the kind says about its values without a host.
func Values() plan.Kinds { return plan.Kinds{Driver: {Same: same}} }

// Kinds returns the kind of target for the host below root.
func Kinds(root *hostfs.Root) apply.Kinds {
	return apply.Of(Values(), func(call apply.Call) apply.Driver {
		return &interrupts{root: root, call: call, files: make(map[string]string)}
	})
}

// interrupts is the driver. It checks once per call whether each interrupt is still the same.
type interrupts struct {
	root *hostfs.Root
	call apply.Call
	// files has the file of each checked interrupt, by the interrupt's name.
	files map[string]string
}

// file returns the file of a target and the target's identity.
func (i *interrupts) file(t plan.Target) (string, plan.Identity, error) {
	if t.Knob == knobOfNext {
		return path.Join(numbers, knobOfNext), numbers, nil
	}
	file, looked := i.files[t.Object]
	if !looked {
		var err error
		if file, err = File(i.root, t); err != nil {
			return "", "", classify(err)
		}
		i.files[t.Object] = file
	}
	return file, plan.Identity(bare(path.Base(path.Dir(file)))), nil
}

// still returns nil if a number still belongs to the interrupt of a name. The error is fs.ErrNotExist if the number
// belongs to another interrupt or to none, and errUnseen if that cannot be known.
func still(root *hostfs.Root, name, number string) error {
	now := nameOf(root, number)
	if now == name {
		return nil
	}
	entries, err := root.ReadDir(numbers)
	if err != nil {
		return errors.Join(errUnseen, err)
	}
	there := func(e fs.DirEntry) bool { return e.Name() == number }
	numbered := func(e fs.DirEntry) bool { _, known := numberOf("irq " + e.Name()); return known }
	switch {
	case !slices.ContainsFunc(entries, numbered): // every machine has interrupts: the directory is covered
		return errUnseen
	case slices.ContainsFunc(entries, there) && now == bare(number): // /sys does not describe it from here
		return errUnseen
	}
	return fmt.Errorf("no interrupt %q: %w", name, fs.ErrNotExist)
}

// Read returns the CPUs that were requested.
func (i *interrupts) Read(t plan.Target) (plan.Value, plan.Identity, error) {
	file, id, err := i.file(t)
	if err != nil {
		return "", "", err
	}
	text, err := i.root.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		if _, unseen := i.root.ID(numbers); unseen != nil {
			err = errors.Join(errUnseen, err)
		}
	}
	if err != nil {
		return "", id, classify(err)
	}
	return plan.Value(strings.TrimSpace(string(text))), id, nil
}

// Write writes the CPUs of a change and reads them back.
func (i *interrupts) Write(c plan.Change) (plan.Value, error) {
	file, _, err := i.file(c.Target)
	if err != nil {
		return "", err
	}
	d, err := i.root.Dir(path.Dir(file))
	if err != nil {
		return "", classify(err)
	}
	defer d.Close()
	if err := i.write(d, c); err != nil {
		return "", classify(err)
	}
	i.call.Written(c.Target)
	text, err := d.ReadFile(c.Knob)
	if err != nil {
		return "", classify(err)
	}
	effective := plan.Value(strings.TrimSpace(string(text)))
	if !same(c.Target, effective, c.Value) {
		return effective, fmt.Errorf("wrote %s, the kernel has %s: %w", c.Value, effective, apply.ErrNotEffective)
	}
	return effective, nil
}

// online returns the online CPUs, and false if they are not known.
func (i *interrupts) online() (cpuset.Set, bool) {
	text, err := i.root.ReadFile(onlineCPUs)
	if err != nil {
		return cpuset.Set{}, false
	}
	cpus, err := cpuset.Parse(strings.TrimSpace(string(text)))
	return cpus, err == nil && !cpus.IsEmpty()
}

// Waits implements apply.Waiter: the kernel refuses CPUs that are all offline (write_irq_affinity and
// default_affinity_write in kernel/irq/proc.c).
func (i *interrupts) Waits(t plan.Target, v plan.Value) error {
	online, known := i.online()
	if cpus, err := parse(t, v); known && err == nil && !cpus.Intersects(online) {
		return fmt.Errorf("CPUs %s are offline: %w", cpus, apply.ErrNotInForce)
	}
	return nil
}

// write checks the mode before it writes: root may open a read-only file of an ordinary file system for writing.
func (i *interrupts) write(d *hostfs.Dir, c plan.Change) error {
	_, mode, err := d.Stat(c.Knob)
	if err != nil {
		return err
	}
	if mode&0o222 == 0 {
		return fmt.Errorf("%s/%s has mode %v: %w", d.Path(), c.Knob, mode, ErrManaged)
	}
	if err := i.Waits(c.Target, c.Value); err != nil {
		return err
	}
	return hostwrite.Existing(d, c.Knob, string(c.Value))
}

// Locate implements apply.Locator.
func (i *interrupts) Locate(t plan.Target, _ plan.Value) string {
	file, _, err := i.file(t)
	if err != nil {
		return ""
	}
	return i.root.Join(file)
}

// classify wraps an answer of the kernel in the error that it means for an interrupt.
func classify(err error) error {
	switch {
	case errors.Is(err, errUnseen), errors.Is(err, ErrManaged):
		return err
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, hostfs.ErrGone):
		return fmt.Errorf("%w: %w", apply.ErrGone, err)
	case errors.Is(err, syscall.EIO), errors.Is(err, syscall.EPERM):
		return fmt.Errorf("%w: %w", ErrManaged, err)
	case errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EBUSY):
		return fmt.Errorf("%w: %w", apply.ErrRefused, err)
	}
	return err
}
