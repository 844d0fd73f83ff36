package place

import (
	"fmt"
	"strconv"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/placement"
)

const milli = 1000

// sum works out what follows from the grants, and which events to report.
func (n *Node) sum(all []*pod, o *placement.Occupancy) {
	n.taken = o.Taken.CPUs()
	n.pool = base(n.facts.Machine).Difference(n.taken)
	for _, p := range all {
		if p.grant == nil {
			continue
		}
		n.pinned++
		if n.first == nil {
			n.first = p
		}
	}
	n.why = n.sharedWhy()
	for _, p := range all {
		n.examine(p)
		n.compareWritten(p)
		n.confirm(p)
	}
	n.excess = ""
	if requested := n.shared(all); n.first != nil && requested > int64(n.pool.Size())*milli {
		n.excess = fmt.Sprintf("containers without exclusive CPUs request %s CPUs, and the shared pool has CPUs %s",
			thousandths(requested), n.pool)
	}
	if n.excess != "" && n.reported == "" {
		n.events = append(n.events, Event{Reason: v1alpha1.EventSharedPoolOvercommitted, Text: n.excess, Warning: true})
	}
	n.reported = n.excess
}

// shared returns what the containers of the shared pool request, in thousandths.
// Pods of class SYSTEM have the reserved CPUs as well and do not count.
func (n *Node) shared(all []*pod) int64 {
	sum := int64(0)
	for _, p := range all {
		switch {
		case !p.known || p.gone || p.spec.Ended || p.behind || p.system():
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
func (n *Node) poolFor(p *pod, c *container) cpuset.Set {
	machine := n.facts.Machine.Topology()
	pool := n.pool
	if p.system() {
		pool = pool.Union(machine.Reserved.Intersect(machine.Online))
	}
	left := c.Bound.Intersect(machine.Online).Difference(n.taken)
	switch {
	case left.IsEmpty():
		return pool
	case left.Intersects(pool):
		return left.Intersect(pool.Union(machine.Isolated))
	}
	return left
}

func thousandths(n int64) string { return strconv.FormatFloat(float64(n)/milli, 'f', -1, 64) }
