package reconcile

import (
	"strings"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/plan"
)

// way determines how a list or a precedence is written on this host: directly or through systemd.
type way struct {
	// systemd is true if systemd can be reached. version is the version of the cpuset hierarchy, cpu that of the cpu
	// hierarchy; 0 means that there is none.
	systemd      bool
	version, cpu int
}

// unitFor returns the unit through which a knob is set, "" for a direct write. On v1 systemd never writes a cpuset, and
// the kernel refuses systemd's shares while a group is idle.
func (w way) unitFor(path string, k cgroup.Knob) string {
	switch {
	case !w.systemd:
	case k.Controller() == cgroup.CPUSet && w.version == 2, k == cgroup.KnobPrecedence && w.cpu == 2:
		return UnitOf(path)
	}
	return ""
}

// target returns the target of a knob of a group, which also says how the knob is written.
func (w way) target(path string, k cgroup.Knob) plan.Target {
	if w.unitFor(path, k) != "" {
		return cgroupfile.UnitTarget(path, k)
	}
	return cgroupfile.Target(path, k)
}

// setting returns the desired setting of a knob, with the value that it amounts to.
func (o *object) setting(w way, k cgroup.Knob, v cgroup.Value) plan.Setting {
	s := o.desired[k].Setting
	s.Target, s.Value = w.target(o.path, k), plan.Value(v)
	return s
}

// UnitOf returns the unit of the system's own systemd whose group is at path, "" for another group. The unit is the
// last element of the path, without the "_" that systemd puts before names that could be mistaken for a kernel file.
// All groups above it are slices. systemd has no groups below a service or a scope
// (https://systemd.io/CGROUP_DELEGATION, and cg_path_get_unit in its source). Such groups belong to a payload, for
// example a user's systemd in user@1000.service: its dbus.service is not the unit that the system's systemd knows by
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
