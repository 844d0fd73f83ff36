package grant

import (
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Exchanges reports whether a decision gives a container CPUs that another container of the pod has.
func (g *Grant) Exchanges(pin *workload.Pinning, d *placement.Decision) bool {
	for i, to := range d.Answer.Each {
		for name, has := range g.Parts {
			if !pin.PerPod && name != pin.Pinned[i].Name && has.CPUs.Intersects(to) {
				return true
			}
		}
	}
	return false
}

// KeepEach divides CPUs among the containers so that each keeps those that it has; all added CPUs are new to the pod.
func (g *Grant) KeepEach(pin *workload.Pinning, to cpuset.Set) []cpuset.Set {
	each, left := make([]cpuset.Set, len(pin.Pinned)), to.Difference(g.Own())
	for i, c := range pin.Pinned {
		each[i] = g.Parts[c.Name].CPUs.Intersect(to)
		for cpu := range left.All() {
			if each[i].Size() == c.CPUs {
				break
			}
			each[i] = each[i].Add(cpu)
		}
		left = left.Difference(each[i])
	}
	return each
}
