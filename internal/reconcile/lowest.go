package reconcile

import (
	"errors"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/plan"
)

// because says why a limit is not in force.
func because(blocker string) string {
	return "the kernel does not take the limit because of " + blocker
}

// lowest follows a failed restoration of a limit. The kernel refuses a quota below the burst in force and, on cgroup
// v1, a quota whose ratio is below a child's; both may be another writer's. lowest writes the lowest accepted quota.
// The blocker is the value in the way, "" if nothing can be gained.
func (all *Quotas) lowest(refused plan.Change) (res apply.Result, blocker string) {
	group, err := all.opts.Host.Group(refused.Object)
	if err != nil {
		return res, "" // the group is gone: the next check reports it
	}
	defer group.Close()
	lowest, blocker, err := group.LowestQuota()
	standing, period, perr := cgroup.Value(refused.From).Pair()
	wanted, _, werr := cgroup.Value(refused.Value).Pair()
	if err != nil || perr != nil || werr != nil || blocker == "" || lowest <= wanted {
		return res, ""
	}
	if standing >= 0 && lowest >= standing {
		return res, blocker // it is in place already
	}
	change := refused
	change.Value = plan.Value(cgroup.MaxValue(lowest, period))
	change.Why = because(blocker)
	all.opts.Report(Event{Group: change.Object, Workload: change.Workload, Reason: v1alpha1.EventHostDrift, Text: change.Why})
	return all.opts.write([]plan.Change{change})[0], blocker
}

// lowestOriginal lowers a quota as far as possible if the kernel refuses its original.
func (all *Quotas) lowestOriginal(res apply.Restored) {
	e := res.Entry
	if cgroupfile.Knob(e.Target) != cgroup.KnobMax || !errors.Is(res.Err, apply.ErrRefused) {
		return
	}
	all.lowest(plan.Change{From: res.Found, Setting: plan.Setting{
		Target: e.Target, ID: e.ID, Value: e.Original, Owner: e.Owner, Workload: e.Workload,
	}})
}
