package reconcile

import (
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

// Group is what a test desires for one group.
type Group struct {
	Group                        string
	CPUs, Mems                   cpuset.Set
	Pinned, NoQuota, Below, Made bool
	Limit                        unit.CPUs
	Workload, Why                string
}

// Of returns the settings for groups, with exclusive CPUs or CPUs of the shared pool. If a group only has to be
// unlimited, the kubelet knows its limit.
func Of(groups ...Group) []plan.Desired {
	var all []plan.Desired
	for _, g := range groups {
		add := func(k cgroup.Knob, v cgroup.Value, w plan.Writers) {
			s := plan.Setting{Target: cgroupfile.Target(g.Group, k), Value: plan.Value(v), Owner: plan.OwnerPool, Workload: g.Workload, Why: g.Why}
			if g.Pinned || k == cgroup.KnobMax {
				s.Owner = plan.OwnerPlace
			}
			all = append(all, plan.Desired{Setting: s, Below: g.Below && k != cgroup.KnobMax, Writers: w})
		}
		if !g.CPUs.IsEmpty() {
			add(cgroup.KnobCPUs, cgroup.ListValue(g.CPUs), plan.Writers{Made: g.Made})
		}
		if !g.Mems.IsEmpty() {
			add(cgroup.KnobMems, cgroup.ListValue(g.Mems), plan.Writers{Made: g.Made})
		}
		if g.NoQuota {
			pod := g.CPUs.IsEmpty() && g.Mems.IsEmpty() && g.Limit <= 0
			add(cgroup.KnobMax, cgroup.NoQuota, plan.Writers{Limits: [2]unit.CPUs{g.Limit}, Made: g.Made, Owned: pod, PutsBack: true})
		}
	}
	return all
}
