package tuner

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// isLike reports whether two settings are the same part of a profile, in whichever place. What a group above units
// gets depends on the host.
func (s Setting) isLike(o Setting) bool {
	return s.Knob == o.Knob && s.Instance == o.Instance && (s.Want == o.Want || s.serves() != "")
}

// waiting divides an order into settings to write, and settings that wait for their units. A unit that does not run has
// no group: its settings have the targets on record. The exclusive CPUs and the budgets of groups above such a unit wait
// if no other unit needs them. Otherwise these groups get what is planned, joined with what is on record.
func (a Applied) waiting(o Order, host *knob.Host) (write []tune.Setting, wait []Setting) {
	if len(o.Waiting) == 0 {
		return o.Settings, nil
	}
	write = slices.Clone(o.Settings)
	for _, s := range a.all() {
		i := slices.IndexFunc(write, func(w tune.Setting) bool { return w.Knob == s.Knob && w.File == s.File })
		stopped := slices.IndexFunc(o.Waiting, s.isOf)
		switch {
		case stopped >= 0 && driver.IsListOfUnit(s.Target): // a set may have other CPUs than in the last boot
			s.Want, s.Value = o.Waiting[stopped].Want, plan.Value(o.Waiting[stopped].Write)
			wait = append(wait, s)
		case stopped >= 0, s.serves() != "" && i < 0:
			wait = append(wait, s)
		case s.serves() != "":
			if s, fits := a.joined(host, s, plan.Value(write[i].Write)); fits {
				write[i].Want, write[i].Write = s.Want, string(s.Value)
			}
		}
	}
	return write, append(wait, leftOut(o.Waiting, wait)...)
}

// isOf reports whether a planned setting is the same part of a profile, with whichever value.
func (s Setting) isOf(w tune.Setting) bool { return s.Knob == w.Knob && s.Instance == w.Instance }

// leftOut returns planned settings that the last apply left out for another reason: nothing says where they are.
func leftOut(planned []tune.Setting, wait []Setting) (left []Setting) {
	for _, w := range planned {
		if !slices.ContainsFunc(wait, func(s Setting) bool { return s.isOf(w) }) {
			left = append(left, Setting{Knob: w.Knob, Instance: w.Instance, Want: w.Want})
		}
	}
	return left
}

// unset returns the row of a setting that waits.
func unset(row tune.Verified) tune.Verified {
	row.State, row.Stopped = tune.Dormant, row.File != ""
	if !row.Stopped {
		row.Reason = "the last apply left it out: berth tune apply --committed sets it"
	}
	return row
}

// serves returns the knob of units below a group that need this setting of the group, "" for none.
func (s Setting) serves() string {
	switch s.Knob {
	case tune.Exclusive:
		return tune.Partition
	case tune.UnitBudget:
		return tune.UnitPolicy
	}
	return ""
}

// joined returns a setting of a group above units with a value that serves these units, and leaves the group what it
// has now, or what is planned for it. Other programs may have partitions and budgets below the group, which would end or
// not fit with less. The record is of a boot with other groups, and perhaps with more CPUs. fits is false if the host
// has neither the CPUs nor the budget for it: the kernel will refuse some of the settings.
func (a Applied) joined(host *knob.Host, s Setting, now plan.Value) (joined Setting, fits bool) {
	switch s.Knob {
	case tune.Exclusive:
		all, _ := cpuset.Parse(string(now)) // a group that inherits gives none
		cpus, _ := cpuset.Parse(string(s.Value))
		if exist, err := cpuset.Parse(host.Text("/sys/devices/system/cpu/possible")); err == nil && !exist.IsEmpty() {
			cpus = cpus.Intersect(exist)
		}
		if all = all.Union(cpus); all.IsEmpty() {
			return s, false
		}
		s.Want, s.Value = all.String(), plan.Value(all.String())
	case tune.UnitBudget:
		recorded := map[string]string{}
		for _, b := range a.all() {
			if b.Knob == s.Knob && b.File != "" {
				recorded[path.Dir(b.File)] = string(b.Value)
			}
		}
		group := path.Dir(s.File)
		budget, fits := tune.BudgetFor(group, strings.TrimSuffix(group, "/"+s.Target.Object), string(now), recorded, host.Texts)
		s.Want, s.Value = tune.BudgetText(budget), plan.Value(budget)
		return s, fits
	}
	return s, true
}

// split divides the waiting settings into those whose units run now, and the others. A setting of a group above a unit
// waits for the unit that needs it: its partition, its policy, or its own budget for a policy that it gives itself.
func (a Applied) split(host *knob.Host) (started, waits []Setting) {
	runs := func(s Setting) bool { // a group may lack the file until systemd gives it the controller
		return s.File != "" && host.There(path.Dir(s.File)) && knob.Runs(host, path.Dir(s.File))
	}
	for _, s := range a.Waiting {
		is := runs(s)
		if s.serves() != "" {
			is = slices.ContainsFunc(a.Waiting, func(p Setting) bool {
				needs := p.Knob == s.serves() || p.Knob == tune.UnitBudget && p.Knob == s.Knob && path.Ext(path.Dir(p.File)) != ".slice"
				return needs && strings.HasPrefix(p.File, path.Dir(s.File)+"/") && runs(p)
			})
		}
		if is {
			started = append(started, s)
		} else {
			waits = append(waits, s)
		}
	}
	return started, waits
}

// setStarted sets the waiting settings of units that run now, and returns those that it wrote. It records them as
// settings of the profile, also after an error of the write: then they are drift. It writes no list of a unit, as
// systemd would wait for the pages that move, and makes no partition of a unit without its CPUs.
func setStarted(t *Tuner) (set []Setting, err error) {
	host := knob.Open(t.host.Root.FS())
	begun, waits := t.record.split(host)
	if err := t.free(targets(begun)); err != nil || len(begun) == 0 {
		return nil, err
	}
	var now []Setting
	var errs []error
	lacks := map[string]bool{} // by group
	for i, stands := range t.applier.Read(targets(begun)) {
		s, err := begun[i], stands.Err
		if driver.EndsWithUnit(s.Target) { // also where it cannot be set now: a restart is another start
			t.record.Groups[s.File] = stands.ID
		}
		switch {
		case err != nil: // stopped since, or it cannot be read
		case driver.IsListOfUnit(s.Target):
			if s.Knob == tune.UnitCPUs {
				lacks[s.Target.Object] = !t.applier.Kinds().Same(s.Target, stands.Value, s.Value)
			}
		case s.Knob != tune.Partition || !lacks[s.Target.Object]:
			s, _ = t.record.joined(host, s, stands.Value)
			set, err = repeat(set, t.applier, s, t.record.change(s, stands, ", whose unit runs now"))
		}
		if errors.Is(err, apply.ErrGone) {
			waits = append(waits, s)
			continue
		}
		now = append(now, s)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.Name(), err))
		}
	}
	t.record.Settings, t.record.Waiting = append(slices.Clone(t.record.Settings), now...), waits
	return set, errors.Join(append(errs, t.record.save(t.host.Dir))...)
}
