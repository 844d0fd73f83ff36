package reconcile

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/plan"
)

// singles are the desired settings of targets that are not cgroup files, such as sysctls. The settings do not depend on
// each other.
type singles struct {
	opts *Options
	all  map[plan.Target]*single
}

// single is one such setting.
type single struct {
	desired plan.Desired
	kept
	progress
}

// want replaces the desired settings.
func (s *singles) want(desired map[plan.Target]plan.Desired) {
	maps.DeleteFunc(s.all, func(t plan.Target, _ *single) bool {
		_, stays := desired[t]
		return !stays
	})
	for t, d := range desired {
		one := s.all[t]
		if one == nil || one.desired.Value != d.Value || one.desired.Writers != d.Writers {
			one = &single{kept: kept{conflict: conflictOf(d.Writers)}, progress: progress{state: StatePending}}
		}
		one.desired = d
		s.all[t] = one
	}
}

// touch makes the next pass check the settings of an object, unless a failure delays it.
func (s *singles) touch(object string) {
	for t, one := range s.all {
		if t.Object == object && one.state != StateFailed {
			one.due = 0
		}
	}
}

// targets returns the targets with desired settings, in order.
func (s *singles) targets() []plan.Target {
	return slices.SortedFunc(maps.Keys(s.all), func(a, b plan.Target) int { return strings.Compare(a.String(), b.String()) })
}

// pass checks the due settings and applies them where necessary.
func (s *singles) pass(now time.Duration, report *Report) {
	due := slices.DeleteFunc(s.targets(), func(t plan.Target) bool { return now < s.all[t].due })
	if len(due) == 0 {
		return
	}
	var changes []plan.Change
	for i, stands := range s.opts.Applier.Read(due) {
		one := s.all[due[i]]
		one.due = now + reassert
		if stands.Err != nil {
			one.failed(now, stands.Err, report)
		} else if s.mayWrite(now, one, stands, report) {
			c := plan.Change{Setting: one.desired.Setting, From: stands.Value}
			c.ID = stands.ID
			changes = append(changes, c)
		}
	}
	for _, res := range s.opts.write(changes) {
		one := s.all[res.Change.Target]
		if res.Wrote {
			report.Writes++
		}
		if res.Applied() {
			one.stands(res.Change.Value)
		}
		if res.Err != nil {
			one.failed(now, res.Err, report)
		}
	}
}

// mayWrite reports whether to replace the current value: it differs from the desired value, and is not left to its
// writer.
func (s *singles) mayWrite(now time.Duration, one *single, stands apply.Standing, report *Report) bool {
	kinds, t := s.opts.Applier.Kinds(), one.desired.Target
	if kinds.Same(t, stands.Value, one.desired.Value) {
		one.conflict.Returned()
		one.stands(stands.Value)
		return false
	}
	e, known := s.opts.Journal.Entry(t)
	f := found{at: now, kinds: kinds, target: t, value: stands.Value, entry: e, known: known && e.ID == stands.ID}
	f.isLike = func(ours plan.Value) bool { return kinds.Mangled(t, stands.Value, ours) }
	f.expected = f.original() && one.desired.Writers.PutsBack
	if one.mayOverwrite(&f) {
		return true
	}
	reason, isNew := one.conflict.leaveTo(now, t.String(), stands.Value, one.desired.Value)
	if isNew {
		report.Events = append(report.Events, one.event(v1alpha1.EventHostDrift, reason))
	}
	one.state, one.reason = StateConflict, reason
	return false
}

// stands records that the desired value is in effect.
func (o *single) stands(v plan.Value) {
	o.ours, o.state, o.reason = v, StateApplied, ""
	o.rests(o.due)
}

// failed records that the desired value is not in effect.
func (o *single) failed(now time.Duration, err error, report *Report) {
	o.state, o.reason = StateFailed, err.Error()
	if errors.Is(err, apply.ErrGone) {
		o.state = StatePending
	}
	if !o.fails(now, o.reason) {
		return
	}
	reason := v1alpha1.EventHostDrift
	if o.desired.Owner == plan.OwnerIsolate {
		reason = v1alpha1.EventIsolationLimited
	}
	report.Events = append(report.Events, o.event(reason, o.reason))
}

func (o *single) event(reason, text string) Event {
	return Event{Group: o.desired.Object, Workload: o.desired.Workload, Reason: reason, Text: text}
}

// statuses returns the results of the last checks, by target.
func (s *singles) statuses() []Status {
	all := make([]Status, 0, len(s.all))
	for _, t := range s.targets() {
		one := s.all[t]
		all = append(all, Status{Group: t.String(), Owner: one.desired.Owner, State: one.state, Reason: one.reason})
	}
	return all
}

// next returns how long nothing is due, at most most.
func (s *singles) next(now, most time.Duration) time.Duration {
	for _, one := range s.all {
		most = min(most, max(one.due-now, 0))
	}
	return most
}
