package rival

import (
	"math/bits"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// mostNodes is the number of NUMA nodes above which a kubelet with a topology policy does not start by default.
const mostNodes = 8

// narrowest returns the CPUs of the smallest set of NUMA nodes with n free CPUs. Ties go to the set with the lower
// numbers (the kubelet reads a set as a number). ok is false when the policy refuses the set.
func (m *Machine) narrowest(free cpuset.Set, n int, policy TopologyPolicy) (cpus cpuset.Set, ok bool) {
	if len(m.units[node]) > mostNodes {
		return cpuset.Set{}, false
	}
	best, possible := 0, len(m.units[node])
	for mask := 1; mask < 1<<len(m.units[node]); mask++ {
		nodes := m.cpusOf(mask)
		if width := bits.OnesCount(uint(mask)); nodes.Size() >= n && width < possible {
			possible = width
		}
		if nodes.Intersect(free).Size() >= n && (best == 0 || bits.OnesCount(uint(mask)) < bits.OnesCount(uint(best))) {
			best = mask
		}
	}
	preferred := best != 0 && bits.OnesCount(uint(best)) == possible
	switch policy {
	case Restricted:
		ok = preferred
	case SingleNUMANode:
		ok = preferred && possible == 1
	case NoTopology, BestEffort:
		ok = true
	}
	return m.cpusOf(best), ok
}

func (m *Machine) cpusOf(mask int) cpuset.Set {
	var cpus cpuset.Set
	for i := range m.units[node] {
		if mask&(1<<i) != 0 {
			cpus = cpus.Union(m.units[node][i].cpus)
		}
	}
	return cpus
}
