package cgroupfile

import (
	"path"
	"strings"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/plan"
)

const (
	// Driver is the kind of targets whose files are written.
	Driver plan.Driver = "cgroup"
	// UnitDriver is the kind of targets that systemd writes.
	UnitDriver plan.Driver = "systemd"
)

// Target is a knob of the group at a path, as cgroup.Group.Path returns it.
func Target(group string, k cgroup.Knob) plan.Target {
	return plan.Target{Driver: Driver, Object: group, Knob: string(k)}
}

// UnitTarget is a list of the group at a path whose last element names a unit of
// systemd.
func UnitTarget(group string, k cgroup.Knob) plan.Target {
	return plan.Target{Driver: UnitDriver, Object: group, Knob: string(k)}
}

// IsGroup says that a target is a knob of a group, whichever way leads to it.
func IsGroup(t plan.Target) bool { return t.Driver == Driver || t.Driver == UnitDriver }

// Unit returns the unit of a target that systemd writes, and "" for any other.
// systemd puts an underscore before a name that the kernel has a use of its own for.
func Unit(t plan.Target) string {
	if t.Driver != UnitDriver {
		return ""
	}
	return strings.TrimPrefix(path.Base(t.Object), "_")
}

// Knob is the knob of a target of this package.
func Knob(t plan.Target) cgroup.Knob { return cgroup.Knob(t.Knob) }

// Identity is the identity of a group's directory, as cgroup.Group.ID returns it for
// the controller of the knob.
func Identity(id cgroup.ID) plan.Identity { return plan.Identity(id.String()) }
