package reconcile

import (
	"errors"
	"fmt"
	"slices"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
)

// looked is what a check of one group asks for.
type looked struct {
	settings []plan.Setting
	observed map[plan.Target]plan.Value
	adopt    []plan.Change
}

// look finds out what a group needs.
func (r *Reconciler) look(o *object) looked {
	l := looked{observed: map[plan.Target]plan.Value{}}
	if o.undisturbed() {
		return l
	}
	o.dirty = false
	was := o.group != nil
	l, err := r.lookClosely(o)
	if errors.Is(err, cgroup.ErrNoGroup) && was { // another group may have its name now
		o.drop()
		l, err = r.lookClosely(o)
	}
	if errors.Is(err, cgroup.ErrNoGroup) {
		o.unavailable(err)
	}
	return l
}

// lookClosely reads what the desired settings of a group need. It returns the first cgroup.ErrNoGroup; other errors are
// stored with their knobs.
func (r *Reconciler) lookClosely(o *object) (looked, error) {
	l := looked{observed: map[plan.Target]plan.Value{}}
	if o.deferred { // systemd may have recreated the files
		o.deferred = false
		_ = o.close() // only used to read
	}
	if err := o.open(r.opts.Host); err != nil {
		o.unavailable(err)
		return l, err
	}
	for _, knob := range o.desired.knobs() {
		o.knob(knob).problem, o.knob(knob).deferred = nil, ""
		err := r.lookAt(o, knob, &l)
		if errors.Is(err, cgroup.ErrNoGroup) {
			return looked{}, err
		}
		o.knob(knob).problem = err
	}
	return l, nil
}

// unavailable records that the group does not exist.
func (o *object) unavailable(err error) {
	o.drop()
	for _, k := range o.desired.knobs() {
		o.knob(k).problem = err
	}
}

func (r *Reconciler) lookAt(o *object, name cgroup.Knob, l *looked) error {
	kn := o.knob(name)
	stands, want, err := o.read(name, r.way.unitFor(o.path, name))
	if name == cgroup.KnobMax && errors.Is(err, cgroup.ErrNoController) {
		return nil // v2 without the cpu controller: there is no quota to lift
	}
	if err != nil {
		return err
	}
	target := r.way.target(o.path, name)
	id, err := o.identity(name)
	if err != nil {
		return err
	}
	entry, known := r.opts.Journal.Entry(target)
	known = known && entry.IsOf(r.kinds(), id, plan.Value(stands))
	original, err := originalOf(r, o, stands, entry, known)
	if err != nil {
		return err
	}
	want = o.bounded(name, original, want)
	stray := name == cgroup.KnobMax && o.stray(l)
	if o.endsLifted(stray, stands, want) {
		want, stray = original, false
	}
	s := o.setting(r.way, name, want)
	s.ID = id
	if cgroup.Same(name, stands, want) {
		if len(entry.Threads) > 0 { // a runtime or systemd wrote the list, or an agent that died
			r.opts.Applier.GiveBack(target)
		}
		l.adopt = append(l.adopt, r.own(o, s, entry, known)...)
		kn.conflict.Returned()
		return o.verify(name, stands)
	}
	o.observe(name)
	if !r.mayWrite(o, name, stands, entry, known) {
		return r.leave(o, name, stands, want)
	}
	if err := o.unwritable(name, stray); err != nil {
		return err
	}
	made, err := first(r, o, s, stands, known)
	if err != nil {
		return err
	}
	l.adopt = append(l.adopt, made...)
	l.settings = append(l.settings, s)
	l.observed[target] = plan.Value(stands)
	return nil
}

// originalOf returns the value of the group before Berth: the current value if the journal does not know the group.
func originalOf(r *Reconciler, o *object, stands cgroup.Value, entry journal.Entry, known bool) (cgroup.Value, error) {
	if !known {
		return stands, nil
	}
	return r.follow(o, stands, entry)
}

// first returns what to adopt before the first write to a target, or an error if Berth may not write it.
func first(r *Reconciler, o *object, s plan.Setting, stands cgroup.Value, known bool) ([]plan.Change, error) {
	if known {
		return nil, nil
	}
	if err := r.opts.held(s.Target); err != nil {
		return nil, err
	}
	return r.made(o, s, stands), nil
}

// held returns an error if another part of Berth has the target on record: each part would restore the value that the
// other part had written.
func (o *Options) held(t plan.Target) error {
	if o.Held == nil {
		return nil
	}
	if err := o.Held(t); err != nil {
		return fmt.Errorf("%s is not written: %w", t, err)
	}
	return nil
}

// unwritable returns why Berth must not write a knob, or nil: the quota of a group that runs on CPUs of other groups
// (stray), or the CPUs of a partition.
func (o *object) unwritable(name cgroup.Knob, stray bool) error {
	if stray {
		return fmt.Errorf("%w: %s keeps its quota until its CPUs are its own", errNotInEffect, o.path)
	}
	if name != cgroup.KnobCPUs {
		return nil
	}
	return cgroupfile.NotAPartition(o.group)
}

// endsLifted reports whether a group gets back its limit for now. Its quota is, and should be, unlimited, but its CPUs
// are not its own (stray), or the last write of its CPUs failed.
func (o *object) endsLifted(stray bool, stands, want cgroup.Value) bool {
	has, _, err := stands.Pair()
	gets, _, malformed := want.Pair()
	return err == nil && malformed == nil && has < 0 && gets < 0 && (stray || o.isRefused(cgroup.KnobCPUs))
}

// made returns a journal entry for the list that a group was made with, before Berth replaces it. That list is no
// original: it was desired before. Groups below may have lists of their own.
func (r *Reconciler) made(o *object, s plan.Setting, stands cgroup.Value) []plan.Change {
	if cgroupfile.Knob(s.Target).Controller() != cgroup.CPUSet || !r.desired[o.path][cgroupfile.Knob(s.Target)].Writers.Made {
		return nil
	}
	s.Value = plan.Value(stands)
	return o.adoption(s)
}

// own journals a desired value that is already in place under its owner. It returns the changes to adopt.
func (r *Reconciler) own(o *object, s plan.Setting, entry journal.Entry, known bool) []plan.Change {
	switch {
	case !known && o.desired[cgroupfile.Knob(s.Target)].Writers.Made:
		return o.adoption(s)
	case known && entry.Owner != s.Owner && !entry.IsOriginal(r.kinds(), s.Value):
		if err := r.opts.Applier.Record([]plan.Change{{Setting: s, From: s.Value}}); err != nil {
			r.report.fail(err)
		}
	}
	return nil
}

// stray reports whether the group runs on CPUs that are not its own and no change of that is planned: without a quota
// it could use them all.
func (o *object) stray(l *looked) bool {
	cpus := o.knobs[cgroup.KnobCPUs]
	if !o.desired.sets(cgroup.KnobCPUs) || cpus != nil && cpus.settled {
		return false
	}
	return !slices.ContainsFunc(l.settings, func(s plan.Setting) bool { return cgroupfile.Knob(s.Target) == cgroup.KnobCPUs })
}

// isRefused reports whether the last write of a knob failed: the next write may fail, too.
func (o *object) isRefused(k cgroup.Knob) bool { return o.knobs[k] != nil && o.knobs[k].refused }

// adoption returns the entry for a value that the group was made with. It returns nil while the value that the group
// would have without Berth is unknown.
func (o *object) adoption(s plan.Setting) []plan.Change {
	original := cgroup.Value("")
	if knob := cgroupfile.Knob(s.Target); knob != cgroup.KnobMax {
		v, err := o.group.Unpinned(knob)
		if err != nil {
			return nil
		}
		original = v
	} else if _, period, err := cgroup.Value(s.Value).Pair(); err == nil && o.limit() > 0 {
		original = limitAt(o.limit(), period)
	}
	if original == "" {
		return nil
	}
	return []plan.Change{{Setting: s, From: plan.Value(original)}}
}

// willWrite returns the changes that the runtime will make to a group.
func (r *Reconciler) willWrite(o *object) []plan.Change {
	if err := o.open(r.opts.Host); err != nil {
		return nil // the runtime is about to make it
	}
	o.dirty = true
	var changes []plan.Change
	for _, name := range o.desired.knobs() {
		stands, want, err := o.read(name, r.way.unitFor(o.path, name))
		if errors.Is(err, cgroup.ErrNoGroup) {
			o.drop()
			return nil
		}
		if err != nil || cgroup.Same(name, stands, want) {
			continue
		}
		s := o.setting(r.way, name, want)
		if s.ID, err = o.identity(name); err != nil {
			continue
		}
		kn := o.knob(name)
		kn.ours, kn.before, kn.settled = plan.Value(want), plan.Value(stands), false
		changes = append(changes, plan.Change{Setting: s, From: plan.Value(stands)})
	}
	return changes
}

// applied processes the result of one change.
func (r *Reconciler) applied(res apply.Result) {
	o := r.objects[res.Change.Object]
	if o == nil {
		return
	}
	if res.Wrote {
		r.report.Writes++
	}
	name := cgroupfile.Knob(res.Change.Target)
	kn := o.knob(name)
	switch {
	case res.Applied():
		kn.problem = o.reverify(name, cgroup.Value(res.Effective))
		if res.Err != nil {
			r.report.fail(res.Err)
		}
	case errors.Is(res.Err, apply.ErrDeferred):
		kn.problem = res.Err
		if deferred(res.Err) {
			kn.ours, kn.before, kn.settled = res.Change.Value, res.Change.From, false
			kn.deferred = cgroup.Value(kn.ours)
		}
	case errors.Is(res.Err, apply.ErrGone):
		o.unavailable(fmt.Errorf("%w: %w", cgroup.ErrNoGroup, res.Err))
	case errors.Is(res.Err, apply.ErrChanged):
		o.overtaken(res)
	default:
		kn.problem, kn.refused = res.Err, true
		if res.Wrote {
			kn.ours = res.Change.Value
		}
	}
}

// reverify verifies the value after a write if the group is open.
func (o *object) reverify(k cgroup.Knob, stands cgroup.Value) error {
	if o.group == nil {
		return nil
	}
	return o.verify(k, stands)
}

// conclude derives the state of a group from its knobs.
func (r *Reconciler) conclude(o *object) {
	o.state, o.reason = StateApplied, ""
	for _, name := range o.desired.knobs() {
		kn := o.knob(name)
		awaitsCheck := kn.awaitsCheck()
		switch {
		case kn.conflict.Left() != "":
			if o.state != StateFailed {
				o.state, o.reason = StateConflict, kn.conflict.Left()
			}
		case kn.problem == nil:
		case errors.Is(kn.problem, cgroup.ErrNoGroup), errors.Is(kn.problem, cgroup.ErrUnset):
			o.state, o.reason = StatePending, kn.problem.Error()
			o.drop()
		case errors.Is(kn.problem, apply.ErrDeferred):
			if o.state != StateFailed {
				o.state, o.reason, o.deferred = StatePending, kn.problem.Error(), true
			}
		case awaitsCheck:
			if o.state != StateFailed {
				o.state, o.reason = StatePending, kn.problem.Error()
			}
		case o.state != StateFailed: // the first problem is the cause of the others
			o.state, o.reason, o.failed = StateFailed, kn.problem.Error(), name
		}
		if o.group == nil {
			break
		}
	}
	r.schedule(o)
}

// schedule sets the time of the next check, and reports a new failure.
func (r *Reconciler) schedule(o *object) {
	o.deferred = o.deferred && o.state == StatePending
	switch {
	case o.deferred: // neither a new failure nor the end of one
		o.due = r.now + firstRetry
	case o.state == StateApplied || o.state == StateConflict:
		o.rests(r.now + reassert)
		if o.isWatched(r.now) {
			o.due = r.now + watchEvery
		}
	case o.fails(r.now, o.cause()):
		r.reportFailure(o)
	}
	if o.dirty { // another writer wrote between the check and the write
		o.dirty, o.due = o.state == StateApplied, r.now+firstRetry
	}
}

// reportFailure reports a failure to the workloads that lack something because of it: the group's own workload. If the
// group should have shrunk to the shared pool, these are the workloads whose CPUs it still uses.
func (r *Reconciler) reportFailure(o *object) {
	switch o.desired[o.failed].Owner {
	case plan.OwnerPlace:
		r.event(o, v1alpha1.EventCPUPinFailed, o.reason)
		return
	case plan.OwnerIsolate:
		r.event(o, v1alpha1.EventIsolationLimited, o.reason)
	}
	if o.group == nil || o.failed.Controller() != cgroup.CPUSet {
		return
	}
	cpus, err := o.group.EffectiveCPUs()
	if err != nil {
		return // the group is gone
	}
	cpus = cpus.Difference(o.cpus()) // a pinned group that also has one of these CPUs borrows it
	for _, path := range r.order {
		p := r.objects[path]
		left := cpus.Intersect(p.cpus())
		if p.desired.first().Owner == plan.OwnerPlace && !left.IsEmpty() && !related(path, o.path) {
			r.event(p, v1alpha1.EventCPUPinFailed, fmt.Sprintf("%s is on CPUs %s, too: %s", o.path, left, o.reason))
		}
	}
}
