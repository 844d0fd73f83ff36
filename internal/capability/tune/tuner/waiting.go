package tuner

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/knob"
)

// isLike reports whether two settings are the same part of a profile, in whichever place.
func (s Setting) isLike(o Setting) bool {
	return s.Knob == o.Knob && s.Instance == o.Instance && s.Want == o.Want
}

// waiting divides an order into settings to write, and settings that wait for their units. A unit that does not run has
// no group: its settings have the targets on record. The exclusive CPUs and the budgets of groups above such a unit are
// also those on record, and wait if no other unit needs them.
func (a Applied) waiting(o Order) (write []tune.Setting, wait []Setting) {
	if len(o.Waiting) == 0 {
		return o.Settings, nil
	}
	write = slices.Clone(o.Settings)
	for _, s := range a.all() {
		i := slices.IndexFunc(write, func(w tune.Setting) bool { return w.Knob == s.Knob && w.File == s.File })
		stopped := slices.ContainsFunc(o.Waiting, func(w tune.Setting) bool { return w.Knob == s.Knob && w.Instance == s.Instance })
		switch {
		case stopped, s.serves() != "" && i < 0:
			wait = append(wait, s)
		case s.serves() != "":
			write[i].Want, write[i].Write = s.Want, string(s.Value)
		}
	}
	for _, w := range o.Waiting { // the last apply left it out for another reason
		s := Setting{Knob: w.Knob, Instance: w.Instance, Want: w.Want}
		if !slices.ContainsFunc(wait, s.isLike) {
			wait = append(wait, s)
		}
	}
	return write, wait
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

// split divides the waiting settings into those whose units run now, and the others. A setting of a group above a unit
// waits for the unit that needs it.
func (a Applied) split(host *knob.Host) (started, waits []Setting) {
	runs := func(s Setting) bool { return s.File != "" && host.There(s.File) && knob.Runs(host, path.Dir(s.File)) }
	for _, s := range a.Waiting {
		is := runs(s)
		if s.serves() != "" {
			is = slices.ContainsFunc(a.Waiting, func(p Setting) bool {
				return p.Knob == s.serves() && strings.HasPrefix(p.File, path.Dir(s.File)+"/") && runs(p)
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

// Starts reports whether the unit of a waiting setting runs now, so that Repeat has something to do.
func (a Applied) Starts(tree fs.FS) bool {
	started, _ := a.split(knob.Open(tree))
	return len(started) > 0
}

// setStarted sets the waiting settings of units that run now, and returns those that it wrote. It records them as
// settings of the profile, also after an error of the write: then they are drift. It writes no list of a unit, as
// systemd would wait for the pages that move, and makes no partition of a unit without its CPUs.
func setStarted(t *Tuner) (set []Setting, err error) {
	begun, waits := t.record.split(knob.Open(t.host.Root.FS()))
	if err := t.free(targets(begun)); err != nil || len(begun) == 0 {
		return nil, err
	}
	var now []Setting
	var errs []error
	if t.record.Groups == nil { // an empty map is not in the file
		t.record.Groups = map[string]plan.Identity{}
	}
	lacks := map[string]bool{} // by group
	for i, stands := range t.applier.Read(targets(begun)) {
		s, err := begun[i], stands.Err
		switch {
		case err != nil: // stopped since
		case driver.IsListOfUnit(s.Target):
			lacks[s.Target.Object] = !t.applier.Kinds().Same(s.Target, stands.Value, s.Value)
		case s.Knob != tune.Partition || !lacks[s.Target.Object]:
			t.record.Groups[s.File] = stands.ID
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
