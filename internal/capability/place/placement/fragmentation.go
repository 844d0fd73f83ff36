package placement

import (
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Fragmentation describes how well the free CPUs of a machine lie together. CPUs that no pod may have exclusively
// (reserved, isolated, offline) count as absent.
type Fragmentation struct {
	// FreeCPUs is how many CPUs pods may still have exclusively: of Node.Free, one whole core stays with the shared
	// pool.
	FreeCPUs int `json:"freeCPUs"`
	// Shared is how many more CPUs no pod has: those of the core that stays.
	Shared int `json:"-"`
	// LargestInNUMANode is the largest number of CPUs that fits into one NUMA node, LargestInL3 the largest in one L3
	// domain.
	LargestInNUMANode int `json:"largestInNUMANode"`
	LargestInL3       int `json:"largestInL3"`
	// FreeCores, FreeL3 and FreeNUMANodes count the wholly free cores, L3 domains and NUMA nodes.
	FreeCores     int `json:"freeCores"`
	FreeL3        int `json:"freeL3"`
	FreeNUMANodes int `json:"freeNUMANodes"`
	// BrokenCores counts cores with free and taken threads.
	BrokenCores int `json:"brokenCores"`
	// Scattered is how many free CPUs are in L3 domains that are partly in use (in NUMA nodes, for CPUs in no L3
	// domain).
	Scattered int `json:"scatteredCPUs"`
	// Percent is Scattered in percent of the CPUs that no pod has, rounded: 0 on an empty machine and on a full one. It
	// is the fragmentation in the status of a NodeTopology.
	Percent int `json:"percent"`
}

// FragmentationOf returns the fragmentation of one machine, of whose pinnable CPUs some are taken and all others are
// free. For what a pod can get, pinnable must exclude the efficiency cores, and see Node.Free.
func FragmentationOf(t *topology.Topology, pinnable, taken cpuset.Set) Fragmentation {
	free := pinnable.Difference(taken)
	f := Fragmentation{FreeCPUs: free.Size()}
	var inL3 cpuset.Set
	for _, domain := range t.L3 {
		inL3 = inL3.Union(domain.CPUs)
		f.LargestInL3 = max(f.LargestInL3, domain.CPUs.Intersect(free).Size())
		whole, scattered := lie(domain.CPUs.Intersect(pinnable), free)
		f.FreeL3 += whole
		f.Scattered += scattered
	}
	for _, node := range t.Nodes {
		f.LargestInNUMANode = max(f.LargestInNUMANode, node.CPUs.Intersect(free).Size())
		whole, _ := lie(node.CPUs.Intersect(pinnable), free)
		f.FreeNUMANodes += whole
		_, scattered := lie(node.CPUs.Intersect(pinnable).Difference(inL3), free)
		f.Scattered += scattered
	}
	for _, core := range t.Cores {
		whole, scattered := lie(core.CPUs.Intersect(pinnable), free)
		f.FreeCores += whole
		f.BrokenCores += min(scattered, 1)
	}
	f.Percent = percent(f.Scattered, f.FreeCPUs)
	return f
}

// lie returns 1 if the domain is wholly free, and how many free CPUs it has if it is only partly free.
func lie(domain, free cpuset.Set) (whole, scattered int) {
	n := domain.Intersect(free).Size()
	switch n {
	case 0:
		return 0, 0
	case domain.Size():
		return 1, 0
	default:
		return 0, n
	}
}

// Plus adds up machines; the largest fit is that of one machine.
func (f Fragmentation) Plus(o Fragmentation) Fragmentation {
	f.FreeCPUs += o.FreeCPUs
	f.Shared += o.Shared
	f.LargestInNUMANode = max(f.LargestInNUMANode, o.LargestInNUMANode)
	f.LargestInL3 = max(f.LargestInL3, o.LargestInL3)
	f.FreeCores += o.FreeCores
	f.FreeL3 += o.FreeL3
	f.FreeNUMANodes += o.FreeNUMANodes
	f.BrokenCores += o.BrokenCores
	f.Scattered += o.Scattered
	f.Percent = percent(f.Scattered, f.FreeCPUs+f.Shared)
	return f
}

func percent(part, all int) int {
	if all == 0 {
		return 0
	}
	const hundred = 100
	return (part*hundred + all/2) / all
}
