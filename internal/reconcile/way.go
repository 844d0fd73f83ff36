package reconcile

import (
	"strings"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/plan"
)

// way is by which of two ways a list is written on this host.
type way struct {
	// systemd says that systemd can be reached, version is that of the cpuset hierarchy,
	// 0 without one.
	systemd bool
	version int
}

// unit is the systemd unit through which the lists of a group are set. On v1 systemd never
// writes a cpuset.
func (w way) unit(path string) string {
	if !w.systemd || w.version != 2 {
		return ""
	}
	return UnitOf(path)
}

// unitFor is the unit that a knob is set through.
func (w way) unitFor(path string, k cgroup.Knob) string {
	if k.Controller() != cgroup.CPUSet {
		return ""
	}
	return w.unit(path)
}

// target is a knob of a group, and the way by which it is written.
func (w way) target(path string, k cgroup.Knob) plan.Target {
	if w.unitFor(path, k) != "" {
		return cgroupfile.UnitTarget(path, k)
	}
	return cgroupfile.Target(path, k)
}

// setting is what is desired of a knob, with the value that it amounts to.
func (o *object) setting(w way, k cgroup.Knob, v cgroup.Value) plan.Setting {
	s := o.desired[k].Setting
	s.Target, s.Value = w.target(o.path, k), plan.Value(v)
	return s
}

// UnitOf returns the unit of the system's own systemd whose group is at path, "" when it
// is none: the last element of the path, without the "_" that systemd puts before names
// that could be taken for a kernel file. Above it are slices only. Below a service or a
// scope systemd has no groups (https://systemd.io/CGROUP_DELEGATION, and cg_path_get_unit
// in its source): what is there belongs to a payload, for example a user's systemd in
// user@1000.service, whose dbus.service is not the one that the system's systemd knows by
// that name.
func UnitOf(path string) string {
	at := strings.LastIndexByte(path, '/') + 1
	for above := range strings.SplitSeq(strings.TrimSuffix(path[:at], "/"), "/") {
		if above != "" && !strings.HasSuffix(above, ".slice") {
			return ""
		}
	}
	name := strings.TrimPrefix(path[at:], "_")
	for _, suffix := range []string{".service", ".scope", ".slice"} {
		if len(name) > len(suffix) && strings.HasSuffix(name, suffix) {
			return name
		}
	}
	return ""
}
