package placement

import (
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/topology"
)

// Fragmentation says how well the free CPUs of a machine lie together. CPUs
// that no pod may have for itself (reserved, isolated, offline) count as
// absent.
type Fragmentation struct {
	// FreeCPUs are the CPUs that pods may still have for themselves.
	FreeCPUs int `json:"freeCPUs"`
	// LargestInNUMANode is the largest count that fits into one NUMA node, and
	// LargestInL3 into one L3 domain.
	LargestInNUMANode int `json:"largestInNUMANode"`
	LargestInL3       int `json:"largestInL3"`
	// FreeCores, FreeL3 and FreeNUMANodes are free as a whole.
	FreeCores     int `json:"freeCores"`
	FreeL3        int `json:"freeL3"`
	FreeNUMANodes int `json:"freeNUMANodes"`
	// BrokenCores have free and taken threads.
	BrokenCores int `json:"brokenCores"`
	// Scattered are the free CPUs in L3 domains that are partly in use (in NUMA
	// nodes, for CPUs in no L3 domain).
	Scattered int `json:"scatteredCPUs"`
	// Percent is Scattered in percent of FreeCPUs, rounded: 0 on an empty
	// machine and on a full one. It is the fragmentation in the status of a
	// NodeTopology.
	Percent int `json:"percent"`
}

// FragmentationOf looks at one machine, of which pinnable CPUs may be given out
// and taken ones are. For what a pod can get, pinnable is without the efficiency
// cores.
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

// lie says of a domain whether it is free as a whole, and how many free CPUs
// it has if it is only partly free.
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

// Plus sums up machines: what fits is what fits on one of them.
func (f Fragmentation) Plus(o Fragmentation) Fragmentation {
	f.FreeCPUs += o.FreeCPUs
	f.LargestInNUMANode = max(f.LargestInNUMANode, o.LargestInNUMANode)
	f.LargestInL3 = max(f.LargestInL3, o.LargestInL3)
	f.FreeCores += o.FreeCores
	f.FreeL3 += o.FreeL3
	f.FreeNUMANodes += o.FreeNUMANodes
	f.BrokenCores += o.BrokenCores
	f.Scattered += o.Scattered
	f.Percent = percent(f.Scattered, f.FreeCPUs)
	return f
}

func percent(part, all int) int {
	if all == 0 {
		return 0
	}
	const hundred = 100
	return (part*hundred + all/2) / all
}
