package follower

import (
	"errors"
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

// Limits are what limits a group, and what is known of it. The zero value is no group.
type Limits struct {
	Group *cgroup.Group
	ID    hostfs.ID
	// Burst of a follower is nil where the kernel has no such file.
	Max, Burst *reconcile.Quota
}

// Setting is a knob of a group as burst moves it, without a value.
func (l *Limits) Setting(k cgroup.Knob, workload string) plan.Setting {
	return plan.Setting{
		Target: cgroupfile.Target(l.Group.Path(), k), ID: cgroupfile.Identity(l.ID),
		Owner: plan.OwnerBurst, Workload: workload,
	}
}

// Is says whether an entry of the journal is about the group.
func (l *Limits) Is(e journal.Entry) bool {
	return l.Max != nil && l.Max.Is(e) || l.Burst != nil && l.Burst.Is(e)
}

// LeftBurst says why the burst is left to another writer, "" where it is not.
func (l *Limits) LeftBurst() string {
	if l.Burst == nil {
		return ""
	}
	return l.Burst.Left()
}

// Follower is a group that limits a container besides the container's own: the group of its pod above it, or the
// runtime's copy of the limit below it. It would throttle what the container's group allows, so it follows that.
type Follower struct {
	Limits
	writer *reconcile.Quotas
}

// owned says that the kubelet and the runtime write the quota at a resize: a value that
// is neither Berth's nor the original is the new original.
func owned() plan.Writers { return plan.Writers{Owned: true} }

// meant says that neither of them writes a burst: another writer's is left to it at once.
func meant() plan.Writers { return plan.Writers{Meant: true, Chosen: true} }

// Open opens a group and reads what stands there; nil where there is nothing to
// follow with: the group is gone, has no quota, or its quota is another owner's.
func Open(host *cgroup.Host, writer *reconcile.Quotas, path string, now time.Duration) *Follower {
	group, err := host.Group(path)
	if err != nil {
		return nil // removed meanwhile
	}
	f := &Follower{Limits{Group: group}, writer}
	if !f.CanFollow(now) {
		f.Close()
		return nil
	}
	return f
}

// Close lets go of the group. What it has stays as it is.
func (f *Follower) Close() { _ = f.Group.Close() } // read only: nothing can be lost

// CanFollow reads what stands, and says whether the group can follow. One that followed does so while what stands
// cannot be read.
func (f *Follower) CanFollow(now time.Duration) bool {
	b, err := f.Group.Bandwidth()
	if err != nil {
		return f.Max != nil && !errors.Is(err, cgroup.ErrNoGroup) && !errors.Is(err, cgroup.ErrNoController)
	}
	if b.Quota < 0 {
		return false
	}
	if f.Max == nil {
		if f.ID, err = f.Group.ID(cgroup.CPU); err != nil {
			return false
		}
		f.Max = f.writer.Quota(f.Setting(cgroup.KnobMax, ""), owned(), b.Max())
		if b.HasBurst {
			f.Burst = f.writer.Quota(f.Setting(cgroup.KnobBurst, ""), meant(), b.BurstValue())
		}
	}
	if f.writer.IsOthers(f.Max) {
		return false
	}
	f.writer.See(now, f.Max, owned(), b.Max())
	if f.Burst != nil {
		f.writer.See(now, f.Burst, meant(), b.BurstValue())
	}
	return true
}

// Own is the limit that the group has without Berth, as a rate.
func (f *Follower) Own() unit.CPUs { return f.Max.Original().Rate() }

// Moves returns what the group shall have so that it lets e through.
func (f *Follower) Moves(e burst.Extra) []reconcile.Move {
	own, period, err := f.Max.Original().Pair()
	if err != nil {
		return nil
	}
	followed := burst.Own{Quota: own, Period: period}
	if f.Burst != nil {
		followed.Burst, _, _ = f.Burst.Original().Pair()
	}
	quota, saved := followed.With(e)
	all := []reconcile.Move{{Quota: f.Max, Value: cgroup.MaxValue(quota, period), Workload: e.Workload}}
	if e.Quota > 0 {
		all[0].Why = e.Why
	}
	if f.Burst != nil && f.LeftBurst() == "" && followed.Burst == 0 { // else another program saves there
		all = append(all, reconcile.Move{
			Quota: f.Burst, Value: cgroup.BurstValue(saved, period), Workload: e.Workload,
			Why: "it saves what is saved by the container that it limits",
		})
	}
	return all
}
