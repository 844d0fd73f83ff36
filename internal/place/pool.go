package place

import (
	"fmt"
	"strconv"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/placement"
)

const milli = 1000

// sum works out what follows from the grants, and what there is to tell.
func (n *Node) sum(all []*tenant, o *placement.Occupancy) {
	n.taken = o.Taken.CPUs()
	n.pool = base(n.facts.Machine).Difference(n.taken)
	for _, t := range all {
		if t.grant == nil {
			continue
		}
		n.pinned++
		if n.first == nil {
			n.first = t
		}
	}
	n.why = n.sharedWhy()
	for _, t := range all {
		n.examine(t)
		n.compareWritten(t)
		n.confirm(t)
	}
	n.excess = ""
	if requested := n.shared(all); n.first != nil && requested > int64(n.pool.Size())*milli {
		n.excess = fmt.Sprintf("containers without CPUs of their own request %s CPUs, and CPUs %s are left to them",
			thousandths(requested), n.pool)
	}
	if n.excess != "" && n.told == "" {
		n.news = append(n.news, News{Reason: v1alpha1.EventSharedPoolOvercommitted, Text: n.excess, Warning: true})
	}
	n.told = n.excess
}

// shared returns what the containers of the shared pool request, in thousandths.
// Pods of class SYSTEM have the reserved CPUs as well and do not count.
func (n *Node) shared(all []*tenant) int64 {
	sum := int64(0)
	for _, t := range all {
		switch {
		case !t.known || t.gone || t.pod.Ended || t.behind || t.system():
		case t.grant == nil:
			sum += t.pod.Scheduled
		default:
			for i := range t.pod.Containers {
				if c := &t.pod.Containers[i]; t.grant.parts[c.Name].cpus.IsEmpty() {
					sum += c.CPURequest
				}
			}
		}
	}
	return sum
}

// system says whether the pod runs on the reserved CPUs too.
func (t *tenant) system() bool {
	return v1alpha1.QoSClass(t.pod.Labels[v1alpha1.LabelQoSClass]) == v1alpha1.QoSSystem
}

// poolFor returns what a container has that has no CPUs of its own: no CPU that it
// would not have without Berth, and those that are isolated if it would have them. One
// that would have no CPU of the pool keeps what is no other pod's.
func (n *Node) poolFor(t *tenant, c *member) cpuset.Set {
	machine := n.facts.Machine.Topology()
	pool := n.pool
	if t.system() {
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
