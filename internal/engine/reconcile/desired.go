package reconcile

import (
	"maps"
	"path"
	"slices"

	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/unit"
)

// wanted has the desired settings of one group, by knob. The last of two settings for one knob is valid.
type wanted map[cgroup.Knob]plan.Desired

// split separates desired settings of control group files from all other settings. The last of two settings for one
// target is valid.
func split(desired []plan.Desired) (files []plan.Desired, others map[plan.Target]plan.Desired) {
	others = map[plan.Target]plan.Desired{}
	for _, d := range desired {
		if cgroupfile.IsGroup(d.Target) {
			files = append(files, d)
		} else {
			others[d.Target] = d
		}
	}
	return files, others
}

// byGroup groups the desired settings by control group.
func byGroup(desired []plan.Desired) map[string]wanted {
	all := make(map[string]wanted, len(desired))
	for _, d := range desired {
		if all[d.Object] == nil {
			all[d.Object] = wanted{}
		}
		all[d.Object][cgroupfile.Knob(d.Target)] = d
	}
	return all
}

// knobs returns the knobs with a desired value, the CPUs first: the quota depends on the CPUs.
func (w wanted) knobs() []cgroup.Knob {
	return slices.SortedFunc(maps.Keys(w), func(a, b cgroup.Knob) int { return rank(a) - rank(b) })
}

func rank(k cgroup.Knob) int {
	return slices.Index([]cgroup.Knob{
		cgroup.KnobCPUs, cgroup.KnobMems, cgroup.KnobMax, cgroup.KnobBurst, cgroup.KnobPrecedence, cgroup.KnobIdentity,
	}, k)
}

// sets reports whether a knob has a desired value.
func (w wanted) sets(k cgroup.Knob) bool {
	_, sets := w[k]
	return sets
}

// value returns the desired value of a knob at the given period, "" for none. A desired unlimited quota names no
// period.
func (w wanted) value(k cgroup.Knob, period unit.Micros) cgroup.Value {
	v := cgroup.Value(w[k].Value)
	if k == cgroup.KnobMax && v == cgroup.NoQuota {
		return cgroup.MaxValue(unit.NoLimit, period)
	}
	return v
}

// first returns the setting that represents the group in messages.
func (w wanted) first() plan.Desired {
	for _, k := range w.knobs() {
		return w[k]
	}
	return plan.Desired{}
}

// below returns the settings that the groups below also get.
func (w wanted) below(group string) wanted {
	all := wanted{}
	for k, d := range w {
		if d.Below {
			d.Object, d.Below, d.Writers.Limits = group, false, [2]unit.CPUs{}
			all[k] = d
		}
	}
	return all
}

// withBelow returns desired, and the settings that the given groups inherit from a desired group above.
func withBelow(desired map[string]wanted, groups []string) map[string]wanted {
	all := maps.Clone(desired)
	for _, group := range groups {
		if _, own := desired[group]; own {
			continue
		}
		if w := inherited(desired, group); len(w) > 0 {
			all[group] = w
		}
	}
	return all
}

// inherited returns what a group gets from the nearest group above that passes settings on, without its Limits.
func inherited(desired map[string]wanted, group string) wanted {
	for above := path.Dir(group); above != "." && above != "/"; above = path.Dir(above) {
		if w := desired[above].below(group); len(w) > 0 {
			return w
		}
	}
	return nil
}

// differs reports whether the values or their owners differ. Only the reason and the workload may change.
func (w wanted) differs(before wanted) bool {
	plain := func(d plan.Desired) plan.Desired {
		d.Why, d.Workload = "", ""
		return d
	}
	return !maps.EqualFunc(w, before, func(a, b plan.Desired) bool { return plain(a) == plain(b) })
}
