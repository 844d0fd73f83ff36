package place

import (
	"fmt"
	"strconv"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/cpuset"
)

const milli = 1000

// outcome is what follows from the last decision.
type outcome struct {
	facts *Facts
	// open says that CPU sets may be written, on a machine that is known.
	open bool
	// taken holds the CPUs of pinned pods, empty siblings included.
	taken cpuset.Set
	// pool is what the others have.
	pool cpuset.Set
	// first is the pinned pod that was scheduled first, nil where there is none;
	// pinned counts them.
	first  *pod
	pinned int
	// why is the sentence about every container without exclusive CPUs.
	why string
	boundary
	// excess is the sentence about an overcommitted pool, empty for none.
	excess string
}

// sum works out what follows from the grants.
func (o *outcome) sum(all []*pod, taken cpuset.Set) {
	o.taken = taken
	o.pool = base(o.facts.Machine).Difference(taken)
	for _, p := range all {
		if p.grant == nil {
			continue
		}
		o.pinned++
		if o.first == nil {
			o.first = p
		}
	}
	o.draw(o.facts.Machine.Topology().Online.Difference(taken), o.pool, all)
	o.why = o.sharedWhy()
	least := o.pool.Difference(o.low) // what online work has at the least beside its guarantee
	if requested := o.sharedRequest(all); !o.idle() && requested > int64(least.Size())*milli {
		o.excess = fmt.Sprintf("containers without exclusive CPUs request %s CPUs, and the shared pool has CPUs %s",
			thousandths(requested), least)
	}
}

// idle says that nothing is desired of any container: none has CPUs of its own.
func (o *outcome) idle() bool { return o.first == nil && o.offline.IsEmpty() }

// sharedRequest returns what the containers of the shared pool request, in thousandths.
// Pods of class SYSTEM have the reserved CPUs as well, and offline ones may have cores of
// their own: these do not count.
func (o *outcome) sharedRequest(all []*pod) int64 {
	sum := int64(0)
	for _, p := range all {
		switch {
		case !p.known || p.gone || p.spec.Ended || p.behind || p.system() || p.spec.Offline && !o.offline.IsEmpty():
		case p.grant == nil:
			sum += p.spec.Scheduled
		default:
			for i := range p.spec.Containers {
				if c := &p.spec.Containers[i]; p.grant.parts[c.Name].cpus.IsEmpty() {
					sum += c.CPURequest
				}
			}
		}
	}
	return sum
}

// system says whether the pod runs on the reserved CPUs too.
func (p *pod) system() bool {
	return v1alpha1.QoSClass(p.spec.Labels[v1alpha1.LabelQoSClass]) == v1alpha1.QoSSystem
}

// poolFor returns what a container without exclusive CPUs has: no CPU that it would not
// have without Berth, and those that are isolated if it would have them. One that would
// have no CPU of the pool keeps what is no other pod's.
func (o *outcome) poolFor(p *pod, c *container) cpuset.Set {
	machine := o.facts.Machine.Topology()
	pool := o.side(p)
	if p.system() {
		pool = pool.Union(machine.Reserved.Intersect(machine.Online))
	}
	left := c.Bound.Intersect(machine.Online).Difference(o.taken)
	switch {
	case left.IsEmpty():
		return pool
	case left.Intersects(pool) && p.spec.Offline && !o.offline.IsEmpty():
		return left.Intersect(pool)
	case left.Intersects(pool):
		return left.Intersect(pool.Union(machine.Isolated))
	}
	return left
}

func thousandths(n int64) string { return strconv.FormatFloat(float64(n)/milli, 'f', -1, 64) }
