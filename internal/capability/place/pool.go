package place

import (
	"fmt"
	"strconv"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/capability/place/sharedpool"
	"github.com/berth-project/berth/internal/value/cpuset"
)

const milli = 1000

// outcome is the result of the last decision.
type outcome struct {
	facts *Facts
	// open says that CPU sets may be written and the machine is known.
	open bool
	// pool is the shared pool, for containers without exclusive CPUs. Offline work has its own part of it, as cores
	// says, once there is an offline pod; one is the first such pod.
	pool  sharedpool.Pool
	cores capability.Offline
	one   *pod
	// first is the pinned pod that was scheduled first, or nil; pinned counts the pinned pods.
	first  *pod
	pinned int
	// why is the sentence for every container without exclusive CPUs.
	why string
	// excess is the sentence about an overcommitted pool, or empty.
	excess string
	// listed caches the result of Desired since the last decision or the last Lend.
	listed []Desired
	// shown caches the result of Snapshot for the same time. An answer to the runtime begins with a decision.
	shown *Snapshot
}

func (o *outcome) sum(all []*pod, held *placement.Occupancy) {
	o.pool = sharedpool.Of(o.facts.Machine.Topology(), o.facts.Machine.Topology().Containers(), held.Taken.CPUs())
	excess := held.Excess(o.facts.Machine)
	for _, p := range all {
		if p.has.grant == nil {
			continue
		}
		o.pinned++
		p.has.overbound = excess.Nodes(&p.has.grant.Held)
		if o.first == nil {
			o.first = p
		}
	}
	o.divide(all)
	o.why = o.sharedWhy()
	least := o.pool.All.Difference(o.pool.Low) // without the cores that offline work is guaranteed
	if requested := o.sharedRequest(all); (o.first != nil || o.pool.Divided()) && requested > int64(least.Size())*milli {
		o.excess = fmt.Sprintf("containers without exclusive CPUs request %s CPUs, and the shared pool has CPUs %s",
			thousandths(requested), least)
	}
}

// idle reports whether nothing is desired of any container: none has CPUs of its own.
func (o *outcome) idle() bool { return o.first == nil && !o.pool.Restricts(true) }

// untouched reports whether nothing is desired of a pod that has no CPUs of its own.
func (o *outcome) untouched(p *pod) bool { return o.first == nil && !o.pool.Restricts(p.spec.Offline) }

// sharedRequest returns the requests of the containers in the shared pool, in thousandths. It excludes pods of class
// SYSTEM, which also have the reserved CPUs, and offline pods while offline work has cores of its own.
func (o *outcome) sharedRequest(all []*pod) int64 {
	sum := int64(0)
	for _, p := range all {
		switch {
		case !p.known || p.gone || p.spec.Ended || p.has.behind || p.system() || p.spec.Offline && o.pool.Divided():
		case p.has.grant == nil:
			sum += p.spec.Scheduled
		default:
			for i := range p.spec.Containers {
				if c := &p.spec.Containers[i]; p.has.grant.Parts[c.Name].CPUs.IsEmpty() {
					sum += c.CPURequest
				}
			}
		}
	}
	return sum
}

// system reports whether the pod also runs on the reserved CPUs.
func (p *pod) system() bool {
	return v1alpha1.QoSClass(p.spec.Labels[v1alpha1.LabelQoSClass]) == v1alpha1.QoSSystem
}

// poolFor returns the CPUs of a container without exclusive CPUs.
func (o *outcome) poolFor(p *pod, c *container) cpuset.Set {
	return o.pool.For(sharedpool.Container{Bound: c.Bound, System: p.system(), Offline: p.spec.Offline})
}

func thousandths(n int64) string { return strconv.FormatFloat(float64(n)/milli, 'f', -1, 64) }
