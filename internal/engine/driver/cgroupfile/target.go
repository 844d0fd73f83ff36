package cgroupfile

import (
	"path"
	"strings"

	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
)

const (
	// Driver is the kind of the targets whose files Berth writes.
	Driver plan.Driver = "cgroup"
	// UnitDriver is the kind of the targets that systemd writes.
	UnitDriver plan.Driver = "systemd"
	// SliceDriver is the kind of the targets that are a slice as a whole, which systemd starts and stops.
	SliceDriver plan.Driver = "slice"
)

// Target returns the target of a knob of the group at a path, as cgroup.Group.Path returns it.
func Target(group string, k cgroup.Knob) plan.Target {
	return plan.Target{Driver: Driver, Object: group, Knob: string(k)}
}

// UnitTarget returns the target of a knob of the group at a path whose last element names a systemd unit.
func UnitTarget(group string, k cgroup.Knob) plan.Target {
	return plan.Target{Driver: UnitDriver, Object: group, Knob: string(k)}
}

// IsGroup reports whether a target is a knob of a group, written by Berth or by systemd, or a slice as a whole.
func IsGroup(t plan.Target) bool { return t.Driver == Driver || t.Driver == UnitDriver || IsSlice(t) }

// Unit returns the unit of a target that systemd writes, and "" for any other target. systemd puts an underscore
// before a unit name that the kernel uses itself.
func Unit(t plan.Target) string {
	if t.Driver != UnitDriver {
		return ""
	}
	return strings.TrimPrefix(path.Base(t.Object), "_")
}

// Knob returns the knob of a target of this package.
func Knob(t plan.Target) cgroup.Knob { return cgroup.Knob(t.Knob) }

// Identity returns the identity of a group's directory, as cgroup.Group.ID returns it for the controller of the knob.
func Identity(id cgroup.ID) plan.Identity { return plan.Identity(id.String()) }

// IdentityOf returns the identity of a group for a target of the group or of its threads: for threads, the identity in
// the hierarchy of the controller cpu. Its errors are those of cgroup.Group.ID.
func IdentityOf(g *cgroup.Group, t plan.Target) (plan.Identity, error) {
	id, err := g.ID(Knob(t).Controller())
	return Identity(id), err
}
