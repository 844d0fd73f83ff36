package place

import (
	"fmt"
	"strconv"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/grant"
	"github.com/berth-project/berth/internal/sharedpool"
)

const milli = 1000

// outcome is what follows from the last decision.
type outcome struct {
	facts *Facts
	// open says that CPU sets may be written, on a machine that is known.
	open bool
	// pool is what containers without exclusive CPUs have. Of it offline work has cores of its
	// own, as many of these as there are, from when one, the first offline pod, is there.
	pool  sharedpool.Pool
	cores capability.Offline
	one   *pod
	// first is the pinned pod that was scheduled first, nil where there is none;
	// pinned counts them.
	first  *pod
	pinned int
	// why is the sentence about every container without exclusive CPUs.
	why string
	// excess is the sentence about an overcommitted pool, empty for none.
	excess string
	// listed is what Desired returned since the decision, or since CPUs were lent.
	listed []Desired
}

// sum works out what follows from the grants.
func (o *outcome) sum(all []*pod, taken cpuset.Set) {
	o.pool = sharedpool.Of(o.facts.Machine.Topology(), grant.Base(o.facts.Machine), taken)
	for _, p := range all {
		if p.grant == nil {
			continue
		}
		o.pinned++
		if o.first == nil {
			o.first = p
		}
	}
	o.divide(all)
	o.why = o.sharedWhy()
	least := o.pool.All.Difference(o.pool.Low) // what online work has at the least beside its guarantee
	if requested := o.sharedRequest(all); (o.first != nil || o.pool.Divided()) && requested > int64(least.Size())*milli {
		o.excess = fmt.Sprintf("containers without exclusive CPUs request %s CPUs, and the shared pool has CPUs %s",
			thousandths(requested), least)
	}
}

// idle says that nothing is desired of any container: none has CPUs of its own.
func (o *outcome) idle() bool { return o.first == nil && !o.pool.Restricts(true) }

// untouched says that nothing is desired of a pod that has no CPUs of its own.
func (o *outcome) untouched(p *pod) bool { return o.first == nil && !o.pool.Restricts(p.spec.Offline) }

// sharedRequest returns what the containers of the shared pool request, in thousandths.
// Pods of class SYSTEM have the reserved CPUs as well, and offline ones may have cores of
// their own: these do not count.
func (o *outcome) sharedRequest(all []*pod) int64 {
	sum := int64(0)
	for _, p := range all {
		switch {
		case !p.known || p.gone || p.spec.Ended || p.behind || p.system() || p.spec.Offline && o.pool.Divided():
		case p.grant == nil:
			sum += p.spec.Scheduled
		default:
			for i := range p.spec.Containers {
				if c := &p.spec.Containers[i]; p.grant.Parts[c.Name].CPUs.IsEmpty() {
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

// poolFor returns what a container without exclusive CPUs has.
func (o *outcome) poolFor(p *pod, c *container) cpuset.Set {
	return o.pool.For(sharedpool.Container{Bound: c.Bound, System: p.system(), Offline: p.spec.Offline})
}

func thousandths(n int64) string { return strconv.FormatFloat(float64(n)/milli, 'f', -1, 64) }
