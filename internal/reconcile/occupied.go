package reconcile

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/plan"
)

// errOccupied says that a group has to wait for CPUs that another one was to give up and has
// still, of which it has none at the same time.
var errOccupied = errors.New("CPUs are not free yet")

// unoccupied leaves out the changes that would give a group a CPU which another one, with an
// owner apart from its own, still has against its own desired list, and whose way off it is
// not among the changes: it was refused, or is left to another writer. Those among the changes
// are ordered by package plan. A group that waits keeps what it has, so that others may have to
// wait for it in turn.
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
	waits := func(c plan.Change) bool { return held[c.Object] } // its quota waits, too
	return slices.DeleteFunc(slices.Clone(changes), waits)
}

// occupant returns a group that stands in the way of a change, and on which CPUs.
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

// keeps returns which of the CPUs that the group was seen on it is still on although
// its desired list lacks them. It may have left since that look: the reconciler looks at
// an urgent group alone.
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

// cpus are those that are desired of the group, empty for none.
func (o *object) cpus() cpuset.Set {
	set, _, _ := cgroup.Value(o.desired[cgroup.KnobCPUs].Value).List()
	return set
}

// related says that one of two groups is in the other, or is the other.
func related(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}
