package reconcile

import (
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/driver/systemd"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
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
		return systemd.UnitOf(path)
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

// StillAsks reports whether the last check of the unit made this request and nothing else is desired of the unit since.
// More than one group may match the unit, because another slice may have a group of its name. A question is always
// still asked: it changes nothing.
func (r *Reconciler) StillAsks(a systemd.Ask) bool {
	if a.Group != "" {
		return true
	}
	for path, o := range r.objects {
		kn := o.knobs[a.Knob]
		if r.way.unitFor(path, a.Knob) == a.Unit && !o.dirty && kn != nil && kn.deferred == a.Value {
			return true
		}
	}
	return r.unrestored.awaits(a.Unit, a.Knob, func(t plan.Target) bool { return !r.isDesired(t) })
}
