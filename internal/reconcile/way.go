package reconcile

import (
	"strings"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/plan"
)

// way is by which of two ways a list, or a precedence, is written on this host.
type way struct {
	// systemd says that systemd can be reached, version is that of the cpuset hierarchy
	// and cpu that of the cpu one, 0 without one.
	systemd      bool
	version, cpu int
}

// unitFor is the unit that a knob is set through, "" for none. On v1 systemd never writes a
// cpuset, and the kernel refuses its shares while a group is idle.
func (w way) unitFor(path string, k cgroup.Knob) string {
	switch {
	case !w.systemd:
	case k.Controller() == cgroup.CPUSet && w.version == 2, k == cgroup.KnobPrecedence && w.cpu == 2:
		return UnitOf(path)
	}
	return ""
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
