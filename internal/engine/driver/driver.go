// Package driver lists the kinds of target that Berth can write. A new kind is a package below this directory and a
// line in each of the functions Kinds (or OfHost) and Values.
//
//	boot        the files by which the machine boots.
//	cgroupfile  files of control groups, lists of systemd's units, and slices.
//	cookie      core scheduling cookies of the threads of control groups.
//	hostfile    files below /proc/sys and /sys.
//	irq         the CPUs that serve interrupts.
//	irqbalance  the interrupts that irqbalance leaves alone.
//	thread      the scheduling policy and slice of the threads of control groups.
//
// Package systemd is no kind: cgroupfile writes the lists and weights of systemd's units through it.
//
// The packages plan and journal use only what a kind says about its values; apply uses the whole kind. None of the
// three knows a kind by name.
package driver

import (
	"errors"
	"fmt"
	"maps"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/boot"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/driver/cookie"
	"github.com/berth-project/berth/internal/engine/driver/hostfile"
	"github.com/berth-project/berth/internal/engine/driver/irq"
	"github.com/berth-project/berth/internal/engine/driver/irqbalance"
	"github.com/berth-project/berth/internal/engine/driver/thread"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/linux/knob"
)

// Kinds returns every kind of target of a host. If units is nil, targets that systemd has to write are refused.
func Kinds(host *cgroup.Host, units cgroupfile.Units) apply.Kinds {
	kinds := cgroupfile.Kinds(host, units)
	maps.Copy(kinds, cookie.Kinds(host))
	maps.Copy(kinds, thread.Kinds(host, kernel.DefaultThreadSlice))
	maps.Copy(kinds, OfHost(host.Root()))
	return kinds
}

// OfHost returns the kinds of target that need no control groups.
func OfHost(root *hostfs.Root) apply.Kinds {
	kinds := hostfile.Kinds(root)
	maps.Copy(kinds, irq.Kinds(root))
	maps.Copy(kinds, irqbalance.Kinds(root))
	maps.Copy(kinds, boot.Kinds(root, boot.UpdateGRUB(root)))
	return kinds
}

// Target returns the target that a knob's file is at this moment.
func Target(root *hostfs.Root, file string) (plan.Target, error) {
	if irq.Is(file) {
		return irq.Target(root, file)
	}
	if irqbalance.Is(file) {
		return irqbalance.Target(file), nil
	}
	return hostfile.Target(file)
}

// File returns the file that shows the requested value of a target, if the kernel has one file for it, and false
// otherwise. The interrupt of a target must still be there.
func File(root *hostfs.Root, t plan.Target) (string, bool) {
	switch t.Driver {
	case hostfile.Driver:
		return hostfile.File(root, t), true
	case irq.Driver:
		file, err := irq.File(root, t)
		return file, err == nil
	}
	return "", false
}

// Values returns what the same kinds say about their values without a host. The journal needs only that.
func Values() plan.Kinds {
	values := cgroupfile.Values()
	maps.Copy(values, cookie.Values())
	maps.Copy(values, hostfile.Values())
	maps.Copy(values, irq.Values())
	maps.Copy(values, irqbalance.Values())
	maps.Copy(values, boot.Values())
	maps.Copy(values, thread.Values())
	return values
}

// Phase returns the part of an apply in which a target of a host profile is written.
func Phase(t plan.Target) knob.Phase {
	switch {
	case IsInterrupt(t), IsBan(t):
		return knob.Interrupts
	case cgroupfile.IsPartition(t):
		return knob.Partitions
	case cgroupfile.IsExclusive(t):
		return knob.Exclusives
	case cgroupfile.IsBudget(t):
		return knob.Budgets
	case IsUnit(t):
		return knob.Units
	case IsBoot(t):
		return knob.Boot
	}
	return knob.PhaseAt(t.Object + "/" + t.Knob)
}

// WaitsForThread reports whether a write of a target may start or stop a kernel thread, and waits until that thread ran.
func WaitsForThread(t plan.Target) bool { return knob.WaitsForThread(t.Object + "/" + t.Knob) }

// IsReadOnly reports whether an error is about a target that the kernel does not let anybody write.
func IsReadOnly(err error) bool {
	return errors.Is(err, hostfile.ErrReadOnly) || errors.Is(err, irq.ErrManaged)
}

// IsBan reports whether a target is a list of interrupts that irqbalance leaves alone. The kernel has no such list.
func IsBan(t plan.Target) bool { return t.Driver == irqbalance.Driver }

// IsInterrupt reports whether a target is the CPUs of an interrupt.
func IsInterrupt(t plan.Target) bool { return t.Driver == irq.Driver }

// IsUnit reports whether a target is a knob of a unit's group or of the group's threads.
func IsUnit(t plan.Target) bool { return cgroupfile.IsGroup(t) || t.Driver == thread.Driver }

// IsOfThreads reports whether a target is the policy or the slice of the threads of a unit's group.
func IsOfThreads(t plan.Target) bool { return t.Driver == thread.Driver }

// Group returns the identity of the group of a unit's target, as a read of the target does.
func Group(host *cgroup.Host, t plan.Target) (plan.Identity, error) {
	g, err := host.Group(t.Object)
	if err != nil {
		return "", fmt.Errorf("group of %s: %w", t, err)
	}
	defer g.Close()
	return cgroupfile.IdentityOf(g, t)
}

// IsBoot reports whether a target is a file by which the machine boots.
func IsBoot(t plan.Target) bool { return t.Driver == boot.Driver }

// Shown returns a value of a target for people. For a file by which the machine boots it leaves out the text.
func Shown(t plan.Target, v plan.Value) plan.Value {
	if IsBoot(t) {
		return boot.Shown(v)
	}
	return v
}

// IsListOfUnit reports whether a target is a list of a unit that systemd gives to each group of the unit.
func IsListOfUnit(t plan.Target) bool { return t.Driver == cgroupfile.UnitDriver }

// EndsWithUnit reports whether a unit's target ends with the unit's group. A list that systemd was asked for does not:
// systemd also gives it to the unit's next group. A slice that Berth starts is no unit's target.
func EndsWithUnit(t plan.Target) bool { return IsUnit(t) && !IsListOfUnit(t) && !IsSlice(t) }

// IsSlice reports whether a target is a slice that Berth starts.
func IsSlice(t plan.Target) bool { return cgroupfile.IsSlice(t) }
