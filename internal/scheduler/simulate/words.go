package simulate

import (
	"fmt"

	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

// Detail returns a node's refusal in words, with the figures of the node. If the shared pool needs the last whole core,
// it adds how many CPUs are available.
func Detail(n placement.Node, o *placement.Occupancy, no placement.Refusal) string {
	if no.Code != placement.SharedPool || n.Machine == nil {
		return no.Detail()
	}
	t := n.Machine.Topology()
	free := t.Containers().Difference(o.Taken.CPUs())
	smallest := 0
	for _, core := range t.Cores {
		if size := core.CPUs.Size(); core.CPUs.IsSubsetOf(free) && (smallest == 0 || size < smallest) {
			smallest = size
		}
	}
	most := free.Size() - o.Unknown - smallest
	switch {
	case smallest == 0:
		return fmt.Sprintf("%v: there is none even now", no)
	case most < int(no.Want):
		return fmt.Sprintf("%v: %s wanted, at most %d can be had", no, countOf(int(no.Want)), max(most, 0))
	default:
		return fmt.Sprintf("%v: %s wanted, and no choice of them leaves one", no, countOf(int(no.Want)))
	}
}

// countOf returns a number of CPUs with the noun.
func countOf(cpus int) string { return unit.Count(cpus, "CPU") }

// counting returns a number of CPUs with the verb.
func counting(cpus int) string {
	if cpus == 1 {
		return "1 CPU counts"
	}
	return countOf(cpus) + " count"
}

// nodesText returns the names of NUMA nodes.
func nodesText(ids cpuset.Set) string {
	if ids.Size() == 1 {
		return "NUMA node " + ids.String()
	}
	return "NUMA nodes " + ids.String()
}
