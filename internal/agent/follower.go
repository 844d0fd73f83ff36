package agent

import (
	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/burst"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
)

// follower is a group that limits a container besides the container's own: the group
// of its pod above it, or the runtime's copy of the limit below it. It would throttle
// what the container's group allows, so that its quota and its burst follow.
type follower struct {
	group      *cgroup.Group
	id         plan.Identity
	max, burst followed
}

// followed is one knob of a follower.
type followed struct {
	// own is the group's own value, standing the one last seen or written; both are ""
	// where the kernel has no such file.
	own, standing cgroup.Value
	// foreign says that the value is left to another writer.
	foreign bool
}

func (f *follower) target(k cgroup.Knob) plan.Target {
	return cgroupfile.Target(f.group.Path(), k)
}

func (f *follower) knob(k cgroup.Knob) *followed {
	if k == cgroup.KnobBurst {
		return &f.burst
	}
	return &f.max
}

// follow opens a group and reads what stands there; nil where there is nothing to
// follow with: the group is gone, has no quota, or its quota is another owner's.
func (q *quotas) follow(path string) *follower {
	group, err := q.host.Group(path)
	if err != nil {
		return nil // removed meanwhile
	}
	f := &follower{group: group}
	id, err := group.ID(cgroup.CPU)
	if f.id = cgroupfile.Identity(id); err != nil || !q.refollow(f) {
		f.close()
		return nil
	}
	return f
}

func (f *follower) close() { _ = f.group.Close() } // read only: nothing can be lost

// entryFor is the journal's entry for a knob of the very group of f.
func (w *writer) entryFor(f *follower, k cgroup.Knob) (journal.Entry, bool) {
	e, known := w.journal.Entry(f.target(k))
	return e, known && e.ID == f.id
}

// accountsFor says whether a value is one of Berth's own or the original of an entry.
func (w *writer) accountsFor(e journal.Entry, have cgroup.Value) bool {
	kinds, v := w.applier.Kinds(), plan.Value(have)
	return e.IsOurs(kinds, v) || e.IsOriginal(kinds, v)
}

// refollow reads what stands, and says whether the group still can follow.
func (w *writer) refollow(f *follower) bool {
	b, err := f.group.Bandwidth()
	if err != nil || b.Quota < 0 {
		return false
	}
	e, journaled := w.entryFor(f, cgroup.KnobMax)
	if journaled && e.Owner != plan.OwnerBurst {
		return false
	}
	w.refollowMax(f, b, e, journaled)
	w.refollowBurst(f, b)
	return true
}

// refollowMax takes over the quota that stands. The kubelet and the runtime write it
// at a resize: a value that is neither Berth's nor the original is the new original.
func (w *writer) refollowMax(f *follower, b cgroup.Bandwidth, e journal.Entry, journaled bool) {
	have := b.Max()
	switch {
	case !journaled:
		f.max.own = have
	case w.accountsFor(e, have):
		f.max.own = cgroup.Value(e.Original)
	default:
		if err := w.journal.Rebase(f.target(cgroup.KnobMax), plan.OwnerBurst, plan.Value(have)); err != nil {
			w.fail("journal", err)
			return
		}
		w.log.Info("limit changed", "group", f.group.Path(), "from", string(e.Original), "to", string(have))
		f.max.own = have
	}
	f.max.own, f.max.standing = cgroup.ScaleTo(f.max.own, b.Period), have
}

// refollowBurst takes over the burst that stands. Neither the kubelet nor systemd
// writes one: another writer's is left alone.
func (w *writer) refollowBurst(f *follower, b cgroup.Bandwidth) {
	have := b.BurstValue()
	e, journaled := w.entryFor(f, cgroup.KnobBurst)
	before := f.burst.foreign
	f.burst = followed{}
	switch {
	case !b.HasBurst:
		return
	case !journaled:
		f.burst.own = have
	default:
		f.burst.own, f.burst.foreign = cgroup.Value(e.Original), !w.accountsFor(e, have)
	}
	f.burst.own, f.burst.standing = cgroup.ScaleTo(f.burst.own, b.Period), have
	if f.burst.foreign && !before {
		w.drifts++
		w.log.Warn(v1alpha1.EventHostDrift, "group", f.group.Path(), "reason", f.leftBurst())
	}
}

// leftBurst says that the burst is left to another writer.
func (f *follower) leftBurst() string {
	return string(cgroup.KnobBurst) + " of " + f.group.Path() + ` is "` + string(f.burst.standing) + `": it is left to its writer`
}

// settings returns what the group shall have so that it lets e through.
func (f *follower) settings(e burst.Extra) []plan.Setting {
	own, period, err := f.max.own.Pair()
	if err != nil {
		return nil
	}
	before, _, berr := f.burst.own.Pair()
	quota, saved := burst.Own{Quota: own, Burst: before, Period: period}.With(e)
	s := plan.Setting{Target: f.target(cgroup.KnobMax), ID: f.id, Owner: plan.OwnerBurst, Workload: e.Workload, Value: plan.Value(f.max.own)}
	if e.Quota > 0 {
		s.Value, s.Why = plan.Value(cgroup.MaxValue(quota, period)), e.Why
	}
	all := []plan.Setting{s}
	if berr != nil || f.burst.foreign {
		return all
	}
	s.Target, s.Value, s.Why = f.target(cgroup.KnobBurst), plan.Value(f.burst.own), "it saves what is saved by the container that it limits"
	if e.Burst > 0 {
		s.Value = plan.Value(cgroup.BurstValue(saved, period))
	}
	return append(all, s)
}

// observe adds what stands.
func (f *follower) observe(observed map[plan.Target]plan.Value) {
	for _, k := range []cgroup.Knob{cgroup.KnobMax, cgroup.KnobBurst} {
		if v := f.knob(k).standing; v != "" {
			observed[f.target(k)] = plan.Value(v)
		}
	}
}

// bring writes settings to the group alone.
func (w *writer) bring(f *follower, settings []plan.Setting) {
	kinds, observed := w.applier.Kinds(), map[plan.Target]plan.Value{}
	f.observe(observed)
	for _, r := range w.applier.Apply(plan.Order(kinds, plan.Diff(kinds, settings, observed))) {
		w.brought(f, r)
	}
}

// brought takes over what became of a change. A refused one is tried again at the next
// look at the group.
func (w *writer) brought(f *follower, r apply.Result) {
	if r.Applied() {
		f.knob(cgroupfile.Knob(r.Change.Target)).standing = cgroup.Value(r.Effective)
	}
	if r.Err != nil {
		w.fail("write for "+f.group.Path(), r.Err)
	}
}
