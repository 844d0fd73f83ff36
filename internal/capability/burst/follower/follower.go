package follower

import (
	"errors"
	"time"

	"github.com/berth-project/berth/internal/capability/burst"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/engine/reconcile"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/value/unit"
)

// Limits has the limits of a group, and what is known of it. The zero value is no group.
type Limits struct {
	Group *cgroup.Group
	ID    hostfs.ID
	// Burst is nil for a follower where the kernel has no such file.
	Max, Burst *reconcile.Quota
}

// Setting returns the setting of a knob that burst moves, without a value.
func (l *Limits) Setting(k cgroup.Knob, workload string) plan.Setting {
	return plan.Setting{
		Target: cgroupfile.Target(l.Group.Path(), k), ID: cgroupfile.Identity(l.ID),
		Owner: plan.OwnerBurst, Workload: workload,
	}
}

// Is reports whether an entry of the journal is about the group.
func (l *Limits) Is(e journal.Entry) bool {
	return l.Max != nil && l.Max.Is(e) || l.Burst != nil && l.Burst.Is(e)
}

// LeftBurst returns why the burst is left to another writer, "" if it is not.
func (l *Limits) LeftBurst() string {
	if l.Burst == nil {
		return ""
	}
	return l.Burst.Left()
}

// Follower is a group that limits a container in addition to the container's own group: the group of its pod above it,
// or the runtime's copy of the limit below it. It would throttle what the container's group allows, and therefore
// follows that group.
type Follower struct {
	Limits
	quotas *reconcile.Watch
}

// owned says that the kubelet and the runtime write the quota at a resize: a value that is neither Berth's nor the
// original is the new original.
func owned() plan.Writers { return plan.Writers{Owned: true} }

// meant says that neither the kubelet nor the runtime writes a burst: Berth leaves another writer's burst alone at
// once.
func meant() plan.Writers { return plan.Writers{Meant: true, Chosen: true} }

// Open opens a group and reads its current values. It returns nil if the group cannot follow: the group is gone, has no
// quota, or its quota belongs to another owner.
func Open(host *cgroup.Host, quotas *reconcile.Watch, path string, now time.Duration) *Follower {
	group, err := host.Group(path)
	if err != nil {
		return nil // removed in the meantime
	}
	f := &Follower{Limits{Group: group}, quotas}
	if !f.CanFollow(now) {
		f.Close()
		return nil
	}
	return f
}

// Close closes the group and leaves its values as they are.
func (f *Follower) Close() { _ = f.Group.Close() } // read only: nothing can be lost

// CanFollow reads the current values, and reports whether the group can follow. A group that followed before still can
// if a read fails, unless the group or its controller is gone.
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
		f.Max = f.quotas.Quota(f.Setting(cgroup.KnobMax, ""), owned(), b.Max())
		if b.HasBurst {
			f.Burst = f.quotas.Quota(f.Setting(cgroup.KnobBurst, ""), meant(), b.BurstValue())
		}
	}
	if f.quotas.IsOthers(f.Max) {
		return false
	}
	f.quotas.See(now, f.Max, owned(), b.Max())
	if f.Burst != nil {
		f.quotas.See(now, f.Burst, meant(), b.BurstValue())
	}
	return true
}

// Own returns the group's original limit, as a rate.
func (f *Follower) Own() unit.CPUs { return f.Max.Original().Rate() }

// Moves returns the values that the group must have so that it lets e through.
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
	if f.Burst != nil && f.LeftBurst() == "" && followed.Burst == 0 { // otherwise another program uses the burst
		all = append(all, reconcile.Move{
			Quota: f.Burst, Value: cgroup.BurstValue(saved, period), Workload: e.Workload,
			Why: "it saves what is saved by the container that it limits",
		})
	}
	return all
}
