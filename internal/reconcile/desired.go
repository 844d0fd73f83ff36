package reconcile

import (
	"maps"
	"path"
	"slices"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/unit"
)

// wanted is what is desired of one group, by knob. Of two for one knob the last one counts.
type wanted map[cgroup.Knob]plan.Desired

// split parts what is desired of files of control groups from all else. Of two settings for
// one target the last one counts.
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

// byGroup sorts what is desired by groups.
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

// knobs returns those with a desired value, the CPUs first: the quota depends on them.
func (w wanted) knobs() []cgroup.Knob {
	return slices.SortedFunc(maps.Keys(w), func(a, b cgroup.Knob) int { return rank(a) - rank(b) })
}

func rank(k cgroup.Knob) int {
	return slices.Index([]cgroup.Knob{
		cgroup.KnobCPUs, cgroup.KnobMems, cgroup.KnobMax, cgroup.KnobBurst, cgroup.KnobPrecedence, cgroup.KnobIdentity,
	}, k)
}

// sets says that a knob has a desired value.
func (w wanted) sets(k cgroup.Knob) bool {
	_, sets := w[k]
	return sets
}

// value is what a knob should have, given the period in force; "" if none is desired. A
// quota that is to be unlimited names no period.
func (w wanted) value(k cgroup.Knob, period unit.Micros) cgroup.Value {
	v := cgroup.Value(w[k].Value)
	if k == cgroup.KnobMax && v == cgroup.NoQuota {
		return cgroup.MaxValue(unit.NoLimit, period)
	}
	return v
}

// first is the setting that stands for all of the group's in messages.
func (w wanted) first() plan.Desired {
	for _, k := range w.knobs() {
		return w[k]
	}
	return plan.Desired{}
}

// below is what the groups below get of it.
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

// withBelow returns what is desired, and what those of these groups get that are below a desired one.
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

// inherited is what a group gets of the nearest one above that gives some. Nothing is taken for made with it.
func inherited(desired map[string]wanted, group string) wanted {
	for above := path.Dir(group); above != "." && above != "/"; above = path.Dir(above) {
		if w := desired[above].below(group); len(w) > 0 {
			return w
		}
	}
	return nil
}

// differs says that other values are desired, or another's: the reason may change.
func (w wanted) differs(before wanted) bool {
	plain := func(d plan.Desired) plan.Desired {
		d.Why, d.Workload = "", ""
		return d
	}
	return !maps.EqualFunc(w, before, func(a, b plan.Desired) bool { return plain(a) == plain(b) })
}
