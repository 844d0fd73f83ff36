package quota

import (
	"time"

	"github.com/berth-project/berth/internal/burst"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/reconcile"
)

// follower is a group that limits a container besides the container's own: the group
// of its pod above it, or the runtime's copy of the limit below it. It would throttle
// what the container's group allows, so that its quota and its burst follow.
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

// followers are the way to the groups that follow, and to what is written there.
type followers struct {
	host   *cgroup.Host
	writer *reconcile.Quotas
}

// follow opens a group and reads what stands there; nil where there is nothing to
// follow with: the group is gone, has no quota, or its quota is another owner's.
func (all *followers) follow(path string, now time.Duration) *follower {
	group, err := all.host.Group(path)
	if err != nil {
		return nil // removed meanwhile
	}
	f := &follower{limits{group: group}}
	if !all.refollow(f, now) {
		f.close()
		return nil
	}
	return f
}

func (f *follower) close() { _ = f.group.Close() } // read only: nothing can be lost

// refollow reads what stands, and says whether the group still can follow.
func (all *followers) refollow(f *follower, now time.Duration) bool {
	b, err := f.group.Bandwidth()
	if err != nil || b.Quota < 0 {
		return false
	}
	if f.max == nil {
		if f.id, err = f.group.ID(cgroup.CPU); err != nil {
			return false
		}
		f.max = all.writer.Quota(f.setting(cgroup.KnobMax, ""), owned(), b.Max())
		if b.HasBurst {
			f.burst = all.writer.Quota(f.setting(cgroup.KnobBurst, ""), meant(), b.BurstValue())
		}
	}
	if all.writer.IsOthers(f.max) {
		return false
	}
	all.writer.See(now, f.max, owned(), b.Max())
	if f.burst != nil {
		all.writer.See(now, f.burst, meant(), b.BurstValue())
	}
	return true
}

// saved is the burst that stands, "" where the kernel has none.
func (f *follower) saved() cgroup.Value {
	if f.burst == nil {
		return ""
	}
	return f.burst.Stands()
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
	move := reconcile.Move{Quota: f.max, Value: f.max.Original(), Workload: e.Workload}
	if e.Quota > 0 {
		move.Value, move.Why = cgroup.MaxValue(quota, period), e.Why
	}
	all := []reconcile.Move{move}
	if f.burst == nil || f.leftBurst() != "" {
		return all
	}
	move = reconcile.Move{
		Quota: f.burst, Value: f.burst.Original(), Workload: e.Workload,
		Why: "it saves what is saved by the container that it limits",
	}
	if e.Burst > 0 {
		move.Value = cgroup.BurstValue(saved, period)
	}
	return append(all, move)
}
