package reconcile

import (
	"iter"
	"strings"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/unit"
)

// Desired says what one group shall have. It is a value; of two with the same group
// the last one counts.
type Desired struct {
	// Group is the group's path relative to each hierarchy's root.
	Group string
	// CPUs and Mems are what the group may use; an empty set leaves them as they
	// are. Nothing is ever set to an empty list.
	CPUs, Mems cpuset.Set
	// Pinned says that the CPUs are exclusive (plan.OwnerPlace). Otherwise the
	// group shrinks to the shared pool (plan.OwnerPool).
	Pinned bool
	// NoQuota lifts the CFS quota of the group. A pod's group has a Desired of its own,
	// with nothing but this.
	NoQuota bool
	// Below says that all groups below get the same CPUs and nodes. On v2 the group
	// itself is enough.
	Below bool
	// Made says that a container runtime made the group as Berth answered. Of
	// what stands already and is not in the journal the original is then what the
	// group would have had otherwise.
	Made bool
	// Limit is what the container's own limit grants, 0 for none: the original of a
	// quota that the group was made without, also after a resize. Of a group that was
	// not Made, only a quota that another writer wrote is taken for a resize, if it is Limit.
	Limit unit.CPUs
	// Workload is what it serves, Why one sentence for people.
	Workload, Why string
}

// isPod says that the group is a pod's, in which the kubelet alone knows the limit.
func (d Desired) isPod() bool {
	return d.NoQuota && d.CPUs.IsEmpty() && d.Mems.IsEmpty() && d.Limit <= 0
}

// writers says what a quota means that another program wrote.
func (d Desired) writers() plan.Writers {
	return plan.Writers{Limits: [2]unit.CPUs{d.Limit}, Made: d.Made, Owned: d.isPod(), PutsBack: true}
}

// owner is whose settings they are.
func (d Desired) owner() plan.Owner {
	if d.Pinned || d.CPUs.IsEmpty() && d.Mems.IsEmpty() {
		return plan.OwnerPlace
	}
	return plan.OwnerPool
}

// value is what a knob should have, given the period in force; "" if none is desired.
func (d Desired) value(k cgroup.Knob, period unit.Micros) cgroup.Value {
	switch {
	case !d.sets(k):
		return ""
	case k == cgroup.KnobCPUs:
		return cgroup.ListValue(d.CPUs)
	case k == cgroup.KnobMems:
		return cgroup.ListValue(d.Mems)
	}
	return cgroup.MaxValue(unit.NoLimit, period)
}

// sets says that a knob has a desired value.
func (d Desired) sets(k cgroup.Knob) bool {
	switch k {
	case cgroup.KnobCPUs:
		return !d.CPUs.IsEmpty()
	case cgroup.KnobMems:
		return !d.Mems.IsEmpty()
	}
	return k == cgroup.KnobMax && d.NoQuota
}

// knobs yields those with a desired value, the CPUs first: the quota depends
// on them.
func (d Desired) knobs() iter.Seq[cgroup.Knob] {
	return func(yield func(cgroup.Knob) bool) {
		for _, k := range [...]cgroup.Knob{cgroup.KnobCPUs, cgroup.KnobMems, cgroup.KnobMax} {
			if d.sets(k) && !yield(k) {
				return
			}
		}
	}
}

// UnitOf returns the unit of the system's own systemd whose group is at path, "" when it
// is none: the last element of the path, without the "_" that systemd puts before names
// that could be taken for a kernel file. Above it are slices only. Below a service or a
// scope systemd has no groups (https://systemd.io/CGROUP_DELEGATION, and cg_path_get_unit
// in its source): what is there belongs to a payload, for example a user's systemd in
// user@1000.service, whose dbus.service is not the one that the system's systemd knows by
// that name.
func UnitOf(path string) string {
	at := strings.LastIndexByte(path, '/') + 1
	for above := range strings.SplitSeq(strings.TrimSuffix(path[:at], "/"), "/") {
		if above != "" && !strings.HasSuffix(above, ".slice") {
			return ""
		}
	}
	name := strings.TrimPrefix(path[at:], "_")
	for _, suffix := range []string{".service", ".scope", ".slice"} {
		if len(name) > len(suffix) && strings.HasSuffix(name, suffix) {
			return name
		}
	}
	return ""
}
