package pinning

import (
	"errors"
	"fmt"
	"slices"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
)

// looked is what a look at one group asks for.
type looked struct {
	settings []plan.Setting
	observed map[plan.Target]plan.Value
	adopt    []plan.Change
}

// look finds out what a group needs.
func (k *Keeper) look(m *member) looked {
	l := looked{observed: map[plan.Target]plan.Value{}}
	if m.undisturbed() {
		return l
	}
	m.dirty = false
	was := m.group != nil
	l, err := k.lookClosely(m)
	if errors.Is(err, cgroup.ErrNoGroup) && was { // another one may be there under its name
		m.drop()
		l, err = k.lookClosely(m)
	}
	if errors.Is(err, cgroup.ErrNoGroup) {
		m.unavailable(err)
	}
	return l
}

// lookClosely reads what is needed of a group. The error is the first one that says
// that there is none; others are noted with their knobs.
func (k *Keeper) lookClosely(m *member) (looked, error) {
	l := looked{observed: map[plan.Target]plan.Value{}}
	if m.deferred { // systemd may have made the files anew
		m.deferred = false
		_ = m.close() // only read through
	}
	if err := m.open(k.opts.Host); err != nil {
		m.unavailable(err)
		return l, err
	}
	for knob := range m.wish.knobs() {
		m.knob(knob).problem, m.knob(knob).deferred = nil, ""
		err := k.lookAt(m, knob, &l)
		if errors.Is(err, cgroup.ErrNoGroup) {
			return looked{}, err
		}
		m.knob(knob).problem = err
	}
	return l, nil
}

// unavailable notes that there is no group to look at.
func (m *member) unavailable(err error) {
	m.drop()
	for k := range m.wish.knobs() {
		m.knob(k).problem = err
	}
}

func (k *Keeper) lookAt(m *member, name cgroup.Knob, l *looked) error {
	kn := m.knob(name)
	stands, want, err := m.read(name, k.unitFor(m, name))
	if name == cgroup.KnobMax && errors.Is(err, cgroup.ErrNoController) {
		return nil // v2 without the cpu controller: there is no quota to lift
	}
	if err != nil {
		return err
	}
	target := k.target(m, name)
	id, err := m.identity(name)
	if err != nil {
		return err
	}
	entry, known := k.opts.Journal.Entry(target)
	known = known && entry.ID == id
	if known {
		if err := k.followLimit(m, stands, entry); err != nil {
			return err
		}
	}
	s := k.setting(m, name, want)
	s.ID = id
	if cgroup.Same(name, stands, want) {
		if len(entry.Threads) > 0 { // a runtime or systemd wrote the list, or an agent that died
			k.opts.Applier.GiveBack(target)
		}
		l.adopt = append(l.adopt, k.own(m, s, entry, known)...)
		kn.returned(k.now)
		return m.verify(name, stands)
	}
	if !k.mayWrite(m, name, stands, entry, known) {
		return k.leave(m, name, stands, want)
	}
	if name == cgroup.KnobMax && m.stray(l) {
		return fmt.Errorf("%w: %s keeps its quota until its CPUs are its own", errNotInEffect, m.wish.Group)
	}
	if !known {
		l.adopt = append(l.adopt, k.made(m, s, stands)...)
	}
	l.settings = append(l.settings, s)
	l.observed[target] = plan.Value(stands)
	return nil
}

// made brings the list that a group was made with to the journal before it is replaced:
// it is no original, but of a wish that came before this one. Groups below may have lists
// of their own.
func (k *Keeper) made(m *member, s plan.Setting, stands cgroup.Value) []plan.Change {
	if cgroupfile.Knob(s.Target) == cgroup.KnobMax || !k.wishes[m.wish.Group].Made {
		return nil
	}
	s.Value = plan.Value(stands)
	return k.adoption(m, s)
}

// own brings a value that stands already to the journal, under its owner: it returns
// what is to be adopted.
func (k *Keeper) own(m *member, s plan.Setting, entry journal.Entry, known bool) []plan.Change {
	switch {
	case !known && m.wish.Made:
		return k.adoption(m, s)
	case known && entry.Owner != s.Owner && !entry.IsOriginal(k.kinds(), s.Value):
		if err := k.opts.Applier.Record([]plan.Change{{Setting: s, From: s.Value}}); err != nil {
			k.fail(err)
		}
	}
	return nil
}

// stray says that the group runs on other CPUs than its own, and nothing is about to
// change that: without a quota it could use them all.
func (m *member) stray(l *looked) bool {
	cpus := m.knobs[cgroup.KnobCPUs]
	if !m.wish.wants(cgroup.KnobCPUs) || cpus != nil && cpus.settled {
		return false
	}
	return !slices.ContainsFunc(l.settings, func(s plan.Setting) bool { return cgroupfile.Knob(s.Target) == cgroup.KnobCPUs })
}

// unitFor is the unit that a knob is set through.
func (k *Keeper) unitFor(m *member, name cgroup.Knob) string {
	if name.Controller() != cgroup.CPUSet {
		return ""
	}
	return k.unit(m.wish.Group)
}

// target is a knob of a group, and the way by which it is written.
func (k *Keeper) target(m *member, name cgroup.Knob) plan.Target {
	if k.unitFor(m, name) != "" {
		return cgroupfile.UnitTarget(m.wish.Group, name)
	}
	return cgroupfile.Target(m.wish.Group, name)
}

func (k *Keeper) setting(m *member, name cgroup.Knob, v cgroup.Value) plan.Setting {
	return plan.Setting{
		Target: k.target(m, name), Value: plan.Value(v),
		Owner: m.wish.owner(), Workload: m.wish.Workload, Why: m.wish.Why,
	}
}

// adoption is the entry for a value that the group was made with. Without knowing
// what it would have had otherwise there is none.
func (k *Keeper) adoption(m *member, s plan.Setting) []plan.Change {
	original := cgroup.Value("")
	if knob := cgroupfile.Knob(s.Target); knob != cgroup.KnobMax {
		v, err := m.group.Unpinned(knob)
		if err != nil {
			return nil
		}
		original = v
	} else if _, period, err := cgroup.Value(s.Value).Pair(); err == nil && m.wish.Limit > 0 {
		original = m.wish.limitAt(period)
	}
	if original == "" {
		return nil
	}
	return []plan.Change{{Setting: s, From: plan.Value(original)}}
}

// foretell returns the changes that the runtime will make to a group.
func (k *Keeper) foretell(m *member) []plan.Change {
	if err := m.open(k.opts.Host); err != nil {
		return nil // it is about to be made
	}
	m.dirty = true
	var changes []plan.Change
	for name := range m.wish.knobs() {
		stands, want, err := m.read(name, k.unitFor(m, name))
		if errors.Is(err, cgroup.ErrNoGroup) {
			m.drop()
			return nil
		}
		if err != nil || cgroup.Same(name, stands, want) {
			continue
		}
		s := k.setting(m, name, want)
		if s.ID, err = m.identity(name); err != nil {
			continue
		}
		kn := m.knob(name)
		kn.ours, kn.before, kn.settled = want, stands, false
		changes = append(changes, plan.Change{Setting: s, From: plan.Value(stands)})
	}
	return changes
}

// applied takes over the result of one change.
func (k *Keeper) applied(r apply.Result) {
	m := k.members[r.Change.Object]
	if m == nil {
		return
	}
	if r.Wrote {
		k.report.Writes++
	}
	name := cgroupfile.Knob(r.Change.Target)
	kn := m.knob(name)
	switch {
	case r.Applied():
		kn.problem = m.reverify(name, cgroup.Value(r.Effective))
		if r.Err != nil {
			k.fail(r.Err)
		}
	case errors.Is(r.Err, apply.ErrDeferred):
		kn.problem = r.Err
		if deferred(r.Err) {
			kn.ours, kn.before, kn.settled = cgroup.Value(r.Change.Value), cgroup.Value(r.Change.From), false
			kn.deferred = kn.ours
		}
	case errors.Is(r.Err, apply.ErrGone):
		m.unavailable(fmt.Errorf("%w: %w", cgroup.ErrNoGroup, r.Err))
	case errors.Is(r.Err, apply.ErrChanged):
		kn.problem, m.dirty = r.Err, true
	default:
		kn.problem = r.Err
		if r.Wrote {
			kn.ours = cgroup.Value(r.Change.Value)
		}
	}
}

// reverify takes over what stands after a write, through a handle of its own: systemd
// may have made the files anew.
func (m *member) reverify(k cgroup.Knob, stands cgroup.Value) error {
	if m.group == nil {
		return nil
	}
	return m.verify(k, stands)
}

// conclude sums up a look.
func (k *Keeper) conclude(m *member) {
	m.state, m.reason = Applied, ""
	for name := range m.wish.knobs() {
		kn := m.knob(name)
		switch {
		case kn.left != "":
			if m.state != Failed {
				m.state, m.reason = Drift, kn.left
			}
		case kn.problem == nil:
		case errors.Is(kn.problem, cgroup.ErrNoGroup), errors.Is(kn.problem, cgroup.ErrUnset):
			m.state, m.reason = Pending, kn.problem.Error()
			m.drop()
		case errors.Is(kn.problem, apply.ErrDeferred):
			if m.state != Failed {
				m.state, m.reason, m.deferred = Pending, kn.problem.Error(), true
			}
		case m.state != Failed: // the first problem is the cause of the others
			m.state, m.reason = Failed, kn.problem.Error()
		}
		if m.group == nil {
			break
		}
	}
	k.schedule(m)
}

// schedule says when the next look is, and tells of a failure that is new.
func (k *Keeper) schedule(m *member) {
	m.deferred = m.deferred && m.state == Pending
	if m.deferred { // no failure, and no end of one
		m.due = k.now + firstRetry
		return
	}
	switch m.state {
	case Applied, Drift:
		m.due, m.wait, m.told = k.now+reassert, 0, ""
		if k.now < m.watched {
			m.due = k.now + firstRetry
		}
		return
	case Failed:
		if m.told != m.reason && m.wait > 0 { // the first try may have come too early
			m.told = m.reason
			k.tellFailure(m)
		}
	case Pending:
	}
	m.wait = min(max(2*m.wait, firstRetry), lastRetry)
	m.due = k.now + m.wait
	if m.dirty { // somebody wrote between the look and the write
		m.dirty, m.due = false, k.now+firstRetry
	}
}

// tellFailure tells those who lack something because of it: the group's own workload,
// or where the group was to make room, those whose CPUs it is still on.
func (k *Keeper) tellFailure(m *member) {
	if m.wish.owner() == plan.OwnerPlace {
		k.tell(m, v1alpha1.EventCPUPinFailed, m.reason)
		return
	}
	if m.group == nil {
		return
	}
	cpus, err := m.group.EffectiveCPUs()
	if err != nil {
		return // gone meanwhile
	}
	for _, path := range k.order {
		p := k.members[path]
		left := cpus.Intersect(p.wish.CPUs)
		if p.wish.Pinned && !left.IsEmpty() && !related(path, m.wish.Group) {
			k.tell(p, v1alpha1.EventCPUPinFailed, fmt.Sprintf("%s is on CPUs %s, too: %s", m.wish.Group, left, m.reason))
		}
	}
}
