package isolate

import (
	"cmp"
	"slices"

	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Reserve returns the CPUs of the cores that offline work leaves free while it is idle (cpu.idle) and has no cores of
// its own. It chooses the fewest whole cores of each L3 domain that have percent of its CPUs, rounded up, and never all
// of its cores. Cores that are alone in their L3 count together by NUMA node: a single core has no other core to pull
// from. Cores in held are chosen first, then the first cores, as online work also has the first cores of a boundary.
// The package comment says why.
func Reserve(cores []Core, held cpuset.Set, percent int) cpuset.Set {
	var reserve cpuset.Set
	if percent <= 0 {
		return reserve
	}
	many := map[Domain]int{}
	for _, c := range cores {
		many[c.Domain]++
	}
	domains := map[Domain][]Core{}
	for _, c := range cores {
		d := c.Domain
		if many[d] == 1 {
			d = Domain{topology.None, c.Node}
		}
		domains[d] = append(domains[d], c)
	}
	for _, all := range domains {
		reserve = reserve.Union(reserveOf(all, held, percent))
	}
	return reserve
}

// reserveOf is Reserve for one domain, whose cores it sorts.
func reserveOf(cores []Core, held cpuset.Set, percent int) cpuset.Set {
	least := ceilDiv(percent*cpusOf(cores).Size(), 100)
	slices.SortFunc(cores, func(a, b Core) int {
		switch {
		case a.CPUs.Intersects(held) == b.CPUs.Intersects(held):
			return cmp.Compare(a.ID, b.ID)
		case a.CPUs.Intersects(held):
			return -1
		}
		return 1
	})
	var some cpuset.Set
	for _, c := range cores[:len(cores)-1] {
		if some.Size() >= least {
			break
		}
		some = some.Union(c.CPUs)
	}
	return some
}
