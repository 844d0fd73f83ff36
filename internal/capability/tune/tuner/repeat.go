package tuner

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
)

// Repeated are the settings of a committed profile that Repeat set again.
type Repeated struct {
	// Started are those of units that did not run at the apply.
	Started []Setting
	// Restarted are those of units that were restarted since: their policies, slices and partitions end with the group.
	Restarted []Setting
	// Followed are policies and slices that threads got which came since without them.
	Followed []Setting
}

// IsEmpty reports whether nothing was set again.
func (r Repeated) IsEmpty() bool { return len(r.Started)+len(r.Restarted)+len(r.Followed) == 0 }

// Started reports whether a unit runs that did not run at the apply, or was restarted since. Repeat then has something
// to set or to note, also where nothing drifts. rows are those of Verify.
func (a Applied) Started(rows []tune.Verified, groups *cgroup.Host) bool {
	runs := func(row tune.Verified) bool { // else Verify calls a setting that waits dormant
		return row.State != tune.Dormant && slices.ContainsFunc(a.Waiting, func(s Setting) bool { return s.Knob == row.Knob && s.File == row.File })
	}
	restarted := func(s Setting) bool {
		was, known := a.Groups[s.File]
		if !known {
			return false
		}
		now, err := driver.Group(groups, s.Target)
		return err == nil && now != was
	}
	return slices.ContainsFunc(rows, runs) || slices.ContainsFunc(a.Settings, restarted)
}

// Repeat applies a committed profile again to units that were restarted since, and to new threads that inherited
// nothing. In a group that was not recreated, values of another program stay: of a thread that is on record, and of a
// thread whose policy or slice is not the default. Repeat skips a unit that does not run; it applies the profile to a
// unit that did not run at the apply and runs now. The error names settings that could not be set. They are not tried
// again until the unit restarts.
//
// A setting that the unit had already has no journal entry. Repeat begins one before it writes, with the present value
// as the original. No thread is on record by then, so each thread with the default counts as new.
func (t *Tuner) Repeat() (Repeated, error) {
	if !t.is || t.record.Phase != Committed || !t.record.Stands(t.host.Boot) {
		return Repeated{}, nil
	}
	if t.record.Groups == nil { // an empty map is not in the file
		t.record.Groups = map[string]plan.Identity{}
	}
	started, unset := setStarted(t)
	ends := slices.DeleteFunc(slices.Clone(t.record.Settings), func(s Setting) bool { return !driver.EndsWithUnit(s.Target) })
	if err := t.free(targets(ends)); err != nil {
		return Repeated{Started: started}, errors.Join(unset, err)
	}
	all := Repeated{Started: started}
	errs := []error{unset}
	before := maps.Clone(t.record.Groups) // a policy and a slice have the same file
	for i, now := range t.applier.Read(targets(ends)) {
		s := ends[i]
		switch err := all.repeat(t, s, now, before); {
		case err == nil && now.Err == nil: // a group that has the value already gets no entry
			t.record.Groups[s.File] = now.ID
		case err != nil && !errors.Is(err, apply.ErrGone): // else stopped since the read
			errs = append(errs, fmt.Errorf("%s: %w", s.Name(), err))
		}
	}
	if !maps.Equal(before, t.record.Groups) {
		errs = append(errs, t.record.save(t.host.Dir))
	}
	return all, errors.Join(errs...)
}

// repeat does what Tuner.Repeat does for one setting. groups are those on record before.
func (r *Repeated) repeat(t *Tuner, s Setting, now apply.Standing, groups map[string]plan.Identity) (err error) {
	entry, known := t.journal.Entry(s.Target)
	group, seen := groups[s.File]
	switch c := t.record.change(s, now, ", again"); {
	case now.Err != nil || !known && !seen:
	case known && !entry.IsOf(t.applier.Kinds(), now.ID, now.Value), !known && group != now.ID:
		r.Restarted, err = repeat(r.Restarted, t.applier, s, c)
	case now.Value != s.Value && known:
		r.Followed, err = follow(r.Followed, t.applier, s)
	case now.Value != s.Value && driver.IsOfThreads(s.Target): // else another program's value
		r.Followed, err = begin(r.Followed, t.applier, s, c)
	}
	return err
}

func targets(settings []Setting) []plan.Target {
	all := make([]plan.Target, len(settings))
	for i, s := range settings {
		all[i] = s.Target
	}
	return all
}

// groups returns the groups of settings that end with the group of a unit, by the file of the setting.
func groups(all []one) map[string]plan.Identity {
	of := map[string]plan.Identity{}
	for _, s := range all {
		if driver.EndsWithUnit(s.change.Target) {
			of[s.File] = s.change.ID
		}
	}
	return of
}

// change returns the change that sets a setting of the profile. why follows the name of the profile.
func (a Applied) change(s Setting, now apply.Standing, why string) plan.Change {
	return plan.Change{Setting: plan.Setting{
		Target: s.Target, ID: now.ID, Value: s.Value, Owner: Owner, Workload: a.Profile.Name, Why: "profile " + a.Profile.Name + why,
	}, From: now.Value}
}

// repeat applies one setting of a profile to the group of its unit, and adds it to the list if it wrote.
func repeat(list []Setting, a *apply.Applier, s Setting, c plan.Change) ([]Setting, error) {
	r := a.Apply([]plan.Change{c})[0]
	if r.Wrote && r.Err == nil {
		list = append(list, s)
	}
	return list, r.Err
}

// follow gives one setting to new threads of its unit, and adds it to the list if a thread got it.
func follow(list []Setting, a *apply.Applier, s Setting) ([]Setting, error) {
	given, err := a.Follow(s.Target)
	if given > 0 {
		list = append(list, s)
	}
	return list, err
}

// begin does the same for a setting that its unit had already, so that Berth wrote nothing. It looks first: a thread may
// keep a policy of its own for weeks. It forgets the entry again if no thread got the setting: then nothing is to be
// undone.
func begin(list []Setting, a *apply.Applier, s Setting, c plan.Change) ([]Setting, error) {
	if lacks, err := a.Lacks(s.Target); err != nil || !lacks {
		return list, err
	}
	if err := a.Claim([]plan.Change{c}); err != nil {
		return list, err
	}
	n := len(list)
	list, err := follow(list, a, s)
	if err == nil && len(list) == n {
		a.Restore(func(e journal.Entry) bool { return e.Target == s.Target }, false) // the original is in effect
	}
	return list, err
}
