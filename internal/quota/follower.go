package quota

import (
	"slices"
	"time"

	"github.com/berth-project/berth/internal/burst"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/reconcile"
	"github.com/berth-project/berth/internal/unit"
)

// follower is a group that limits a container besides the container's own: the group of its pod above it, or the
// runtime's copy of the limit below it. It would throttle what the container's group allows, so it follows that.
type follower struct{ limits }

// limits are what limits a group, and what is known of it. The zero value is no group.
type limits struct {
	group *cgroup.Group
	id    hostfs.ID
	// burst of a follower is nil where the kernel has no such file.
	max, burst *reconcile.Quota
}

// setting is a knob of a group as burst moves it, without a value.
func (l *limits) setting(k cgroup.Knob, workload string) plan.Setting {
	return plan.Setting{
		Target: cgroupfile.Target(l.group.Path(), k), ID: cgroupfile.Identity(l.id),
		Owner: plan.OwnerBurst, Workload: workload,
	}
}

// is says whether an entry of the journal is about the group.
func (l *limits) is(e journal.Entry) bool {
	return l.max != nil && l.max.Is(e) || l.burst != nil && l.burst.Is(e)
}

// leftBurst says why the burst is left to another writer, "" where it is not.
func (l *limits) leftBurst() string {
	if l.burst == nil {
		return ""
	}
	return l.burst.Left()
}

// owned says that the kubelet and the runtime write the quota at a resize: a value that
// is neither Berth's nor the original is the new original.
func owned() plan.Writers { return plan.Writers{Owned: true} }

// meant says that neither of them writes a burst: another writer's is left to it at once.
func meant() plan.Writers { return plan.Writers{Meant: true, Chosen: true} }

// openFollower opens a group and reads what stands there; nil where there is nothing to
// follow with: the group is gone, has no quota, or its quota is another owner's.
func (q *Groups) openFollower(path string, now time.Duration) *follower {
	group, err := q.opts.Host.Group(path)
	if err != nil {
		return nil // removed meanwhile
	}
	f := &follower{limits{group: group}}
	if !q.canFollow(f, now) {
		f.close()
		return nil
	}
	return f
}

func (f *follower) close() { _ = f.group.Close() } // read only: nothing can be lost

// canFollow reads what stands, and says whether the group can follow.
func (q *Groups) canFollow(f *follower, now time.Duration) bool {
	b, err := f.group.Bandwidth()
	if err != nil || b.Quota < 0 {
		return false
	}
	if f.max == nil {
		if f.id, err = f.group.ID(cgroup.CPU); err != nil {
			return false
		}
		f.max = q.writer.Quota(f.setting(cgroup.KnobMax, ""), owned(), b.Max())
		if b.HasBurst {
			f.burst = q.writer.Quota(f.setting(cgroup.KnobBurst, ""), meant(), b.BurstValue())
		}
	}
	if q.writer.IsOthers(f.max) {
		return false
	}
	q.writer.See(now, f.max, owned(), b.Max())
	if f.burst != nil {
		q.writer.See(now, f.burst, meant(), b.BurstValue())
	}
	return true
}

// moves returns what the group shall have so that it lets e through.
func (f *follower) moves(e burst.Extra) []reconcile.Move {
	own, period, err := f.max.Original().Pair()
	if err != nil {
		return nil
	}
	followed := burst.Own{Quota: own, Period: period}
	if f.burst != nil {
		followed.Burst, _, _ = f.burst.Original().Pair()
	}
	quota, saved := followed.With(e)
	all := []reconcile.Move{{Quota: f.max, Value: cgroup.MaxValue(quota, period), Workload: e.Workload}}
	if e.Quota > 0 {
		all[0].Why = e.Why
	}
	if f.burst != nil && f.leftBurst() == "" && followed.Burst == 0 { // else another program saves there
		all = append(all, reconcile.Move{
			Quota: f.burst, Value: cgroup.BurstValue(saved, period), Workload: e.Workload,
			Why: "it saves what is saved by the container that it limits",
		})
	}
	return all
}

// checkNested finds the copies of m's limit below its group, as crun makes one in its
// group "container", and brings them to where the container's own group stands. Other
// limits below are those of whoever runs in the container, and stay.
func (q *Groups) checkNested(m *Group, now time.Duration) {
	paths, err := m.group.Children(cgroup.CPU)
	if err != nil {
		return // the group is gone: the next look says so
	}
	for path, f := range m.nested {
		if !slices.Contains(paths, path) || !q.canFollow(f, now) {
			f.close()
			delete(m.nested, path)
		}
	}
	for _, path := range paths {
		f := m.nested[path]
		if f == nil {
			f = q.openFollower(path, now)
		}
		switch {
		case f == nil:
		case q.byPath[path] != nil || !m.copiedTo(f):
			f.close()
			delete(m.nested, path)
		default:
			m.nested[path] = f
			q.writer.Set(now, m.wantedBelow(f, m.law.Facts.Standing)...)
		}
	}
}

// copiedTo says whether the limit of a group below m's is that of m's, give or take
// what systemd rounds.
func (m *Group) copiedTo(f *follower) bool {
	return cgroup.Grants(m.max.Original().Rate(), f.max.Original()) || cgroup.Grants(f.max.Original().Rate(), m.max.Original())
}

// wantedBelow returns what a copy of m's limit must have once m's quota is this much.
func (m *Group) wantedBelow(f *follower, quota unit.Micros) []reconcile.Move {
	return f.moves(m.law.Below(f.max.Original().Rate(), quota))
}

// keepsBelow says whether m still asks for what stands in a knob of the copies.
func (m *Group) keepsBelow(k cgroup.Knob) bool {
	return ofKnob(k, m.law.Facts.LimitQuota > 0 && m.law.Raised(), m.law.Saves())
}
