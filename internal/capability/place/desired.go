package place

import (
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

// Desired is the desired state of one container. A container without a Desired gets back what it had before Berth.
type Desired struct {
	ContainerID, PodUID, Container string
	// Group is the group of the container. A Node knows no groups: the caller that puts containers adds Group, Made and
	// Limit.
	Group string
	// Made says that the runtime has CPUs on record that Berth answered: the group was created with them.
	Made bool
	// Limit is the limit of the pod's specification, 0 if there is none or it is not known. It only matters without a
	// quota.
	Limit unit.CPUs
	// CPUs is never empty.
	CPUs cpuset.Set
	// Borrowed are the CPUs that are not exclusive: other containers use them, too.
	Borrowed cpuset.Set
	// Mems are NUMA nodes; empty leaves them as they are.
	Mems cpuset.Set
	// Pinned says that the CPUs are exclusive to the pod, except Borrowed.
	Pinned bool
	// Offline says that the CPUs are those of offline work.
	Offline bool
	// Bound says that the container is offline and that an administrator, for example, bound it to CPUs outside those
	// of offline work: it stays there.
	Bound bool
	// NoQuota says that the container runs without CFS quota.
	NoQuota bool
	// Serves is the key of the pod for which Berth sets the values: its own pod if Pinned or Offline, else the pod for
	// which others shrink to the shared pool.
	Serves string
	// Why is one sentence for status and explain.
	Why string
}

// Settings returns the desired settings of the group: its CPUs, its memory nodes, and no quota.
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

// unlimited returns the setting of no CFS quota for a group.
func unlimited(group, workload, why string, w plan.Writers) plan.Desired {
	return plan.Desired{Writers: w, Setting: plan.Setting{
		Target: cgroupfile.Target(group, cgroup.KnobMax), Value: plan.Value(cgroup.NoQuota),
		Owner: plan.OwnerPlace, Workload: workload, Why: why,
	}}
}

// DesiredPod is the desired state of the group of a pod.
type DesiredPod struct {
	PodUID string
	// Group is the group of the pod; the caller adds it.
	Group string
	// NoQuota says that the pod's own group runs without CFS quota, because a container in it does.
	NoQuota bool
	// Serves is the key of the pod.
	Serves string
	// Why is one sentence for status and explain.
	Why string
}

// Settings returns the desired settings of the group. Only the kubelet knows its limit.
func (d DesiredPod) Settings() []plan.Desired {
	if !d.NoQuota {
		return nil
	}
	return []plan.Desired{unlimited(d.Group, d.Serves, d.Why, plan.Writers{Owned: true, PutsBack: true})}
}

// Answer is what to set before a container starts or is resized.
type Answer struct {
	// Own is the desired state of the container, at most one, or with Resize of the pod's containers whose CPUs
	// changed.
	Own []Desired
	// Others is the desired state of all containers of the node that must give up CPUs first, as far as the Node knows.
	// Containers that only gain CPUs are not in it.
	Others []Desired
}
