package place

import (
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/unit"
)

// Desired says what one container should have. A container without one gets back what it
// had before Berth.
type Desired struct {
	ContainerID, PodUID, Container string
	// Group is the group of the container. A Node knows no groups: whoever puts containers
	// adds it, and with it Made and Limit.
	Group string
	// Made says that the runtime has CPUs on record for it that Berth answered: the group
	// was made with them.
	Made bool
	// Limit is what the pod's specification limits it to, 0 for nothing or where that is
	// not known. It only matters without a quota.
	Limit unit.CPUs
	// CPUs is never empty.
	CPUs cpuset.Set
	// Borrowed are those of CPUs that are not exclusive: others use them, too.
	Borrowed cpuset.Set
	// Mems holds NUMA nodes; empty to leave them as they are.
	Mems cpuset.Set
	// Pinned says that the CPUs are exclusive to the pod, but for what is borrowed.
	Pinned bool
	// Offline says that the CPUs are those of offline work.
	Offline bool
	// Bound says that it is offline and that others, such as an administrator, bound it to
	// CPUs outside those that offline work has: there it stays.
	Bound bool
	// NoQuota says that the container runs without CFS quota.
	NoQuota bool
	// Serves is the key of the pod for which Berth sets it: its own if Pinned or Offline,
	// else the pod for which others shrink to the shared pool.
	Serves string
	// Why is one sentence for status and explain.
	Why string
}

// Settings returns what the group should have: its CPUs, its memory nodes, and no quota.
func (d Desired) Settings() []plan.Desired {
	owner := plan.OwnerPool
	switch {
	case d.Pinned:
		owner = plan.OwnerPlace
	case d.Offline:
		owner = plan.OwnerIsolate
	}
	var all []plan.Desired
	for _, one := range []struct {
		knob cgroup.Knob
		set  cpuset.Set
	}{{cgroup.KnobCPUs, d.CPUs}, {cgroup.KnobMems, d.Mems}} {
		if !one.set.IsEmpty() { // nothing is ever set to an empty list
			all = append(all, plan.Desired{Below: true, Writers: plan.Writers{Made: d.Made}, Setting: plan.Setting{
				Target: cgroupfile.Target(d.Group, one.knob), Value: plan.Value(cgroup.ListValue(one.set)),
				Owner: owner, Workload: d.Serves, Why: d.Why,
			}})
		}
	}
	if d.NoQuota {
		limits := [2]unit.CPUs{d.Limit}
		all = append(all, unlimited(d.Group, d.Serves, d.Why, plan.Writers{Limits: limits, Made: d.Made, PutsBack: true}))
	}
	return all
}

// unlimited has a group run without a CFS quota.
func unlimited(group, workload, why string, w plan.Writers) plan.Desired {
	return plan.Desired{Writers: w, Setting: plan.Setting{
		Target: cgroupfile.Target(group, cgroup.KnobMax), Value: plan.Value(cgroup.NoQuota),
		Owner: plan.OwnerPlace, Workload: workload, Why: why,
	}}
}

// DesiredPod says what the group of a pod should have.
type DesiredPod struct {
	PodUID string
	// Group is the group of the pod, added as that of a container is.
	Group string
	// NoQuota says that the pod's own group runs without CFS quota, because a
	// container in it does.
	NoQuota bool
	// Serves is the key of the pod.
	Serves string
	// Why is one sentence for status and explain.
	Why string
}

// Settings returns what the group should have. The kubelet alone knows its limit.
func (d DesiredPod) Settings() []plan.Desired {
	if !d.NoQuota {
		return nil
	}
	return []plan.Desired{unlimited(d.Group, d.Serves, d.Why, plan.Writers{Owned: true, PutsBack: true})}
}

// Answer is what to set before a container starts, or is resized.
type Answer struct {
	// Own is what is desired for the container, one or none, or with Resize for the
	// pod's containers whose CPUs changed.
	Own []Desired
	// Others is what is desired for all containers of the node that must give up CPUs
	// first, as far as the Node knows. Those that may only gain are not among them.
	Others []Desired
}
