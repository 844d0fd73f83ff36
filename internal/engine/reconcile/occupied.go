package reconcile

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// errOccupied means that a group must wait for CPUs that another group should have left but still has. The two groups
// must never share these CPUs.
var errOccupied = errors.New("CPUs are not free yet")

// unoccupied removes the changes that would give a group a CPU which another group still has although its desired list
// lacks it. This applies only to two owners that must not share CPUs (Owner.Apart). If the other group's own change is
// among the changes, package plan orders the two. Otherwise the kernel refused that change, or it is left to another
// writer. A waiting group retains its CPUs, so further groups may have to wait for it.
func (r *Reconciler) unoccupied(changes []plan.Change) []plan.Change {
	moving := map[string]bool{}
	for _, c := range changes {
		moving[c.Object] = moving[c.Object] || cgroupfile.Knob(c.Target) == cgroup.KnobCPUs
	}
	held := map[string]bool{}
	for again := true; again; {
		again = false
		for _, c := range changes {
			if held[c.Object] || cgroupfile.Knob(c.Target) != cgroup.KnobCPUs {
				continue
			}
			if by, cpus := r.occupant(c, moving); by != "" {
				held[c.Object], moving[c.Object], again = true, false, true
				r.objects[c.Object].knob(cgroup.KnobCPUs).problem = fmt.Errorf("%w: %s is on %s still", errOccupied, by, cpus)
			}
		}
	}
	if len(held) == 0 {
		return changes
	}
	waits := func(c plan.Change) bool { return held[c.Object] } // its quota also waits
	return slices.DeleteFunc(slices.Clone(changes), waits)
}

// occupant returns a group that blocks a change, and the CPUs on which it does.
func (r *Reconciler) occupant(c plan.Change, moving map[string]bool) (string, cpuset.Set) {
	from, inherits, err := cgroup.Value(c.From).List()
	to, _, toErr := cgroup.Value(c.Value).List()
	taken := to.Difference(from)
	if err != nil || toErr != nil || inherits || taken.IsEmpty() {
		return "", cpuset.Set{}
	}
	for _, path := range r.order {
		o := r.objects[path]
		cpus := o.knobs[cgroup.KnobCPUs]
		if cpus == nil || moving[path] || !c.Owner.Apart(o.desired[cgroup.KnobCPUs].Owner) || related(path, c.Object) {
			continue
		}
		if left := o.keeps(cpus.effective.Intersect(taken)); !left.IsEmpty() {
			return path, left
		}
	}
	return "", cpuset.Set{}
}

// keeps returns the CPUs of seen that the group still uses although its desired list lacks them. The group may have
// left since that check: the reconciler checks an urgent group alone.
func (o *object) keeps(seen cpuset.Set) cpuset.Set {
	left := seen.Difference(o.cpus())
	if left.IsEmpty() || o.group == nil {
		return cpuset.Set{}
	}
	if now, err := o.group.Effective(cgroup.KnobCPUs); err == nil {
		left = left.Intersect(now)
	}
	return left
}

// cpus returns the desired CPUs of the group, empty for none.
func (o *object) cpus() cpuset.Set {
	set, _, _ := cgroup.Value(o.desired[cgroup.KnobCPUs].Value).List()
	return set
}

// related reports whether the groups are the same or one contains the other.
func related(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}
