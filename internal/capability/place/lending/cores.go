package lending

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

// mark is how much busier than another core, in CPUs, a borrower's core may be before the borrower exchanges it: each
// change moves threads away from their caches.
const mark = 0.25

// rank returns the cores to borrow from, the least used first. If use is nil, it returns only the CPUs that the
// borrower has.
func rank(free []cpuset.Set, held cpuset.Set, use []unit.CPUs) []cpuset.Set {
	type ranked struct {
		core cpuset.Set
		use  unit.CPUs
	}
	var all []ranked
	for _, core := range free {
		one := ranked{core: core}
		for cpu := range core.All() {
			if cpu < len(use) {
				one.use += use[cpu]
			}
		}
		switch {
		case core.Intersects(held):
			one.use -= mark
		case use == nil:
			continue
		}
		if use == nil {
			one.core = core.Intersect(held)
		}
		all = append(all, one)
	}
	slices.SortStableFunc(all, func(a, b ranked) int { return cmp.Compare(a.use, b.use) })
	cores := make([]cpuset.Set, len(all))
	for i, one := range all {
		cores[i] = one.core
	}
	return cores
}

// spread returns n CPUs of the cores, or all CPUs if there are fewer. It chooses one thread of every core before a
// second thread of any core, in the order of the list.
func spread(cores []cpuset.Set, n int) cpuset.Set {
	var chosen cpuset.Set
	for chosen.Size() < n {
		before := chosen
		for i := range cores {
			if cpu, found := cores[i].Difference(before).Min(); found && chosen.Size() < n {
				chosen = chosen.Add(cpu)
			}
		}
		if chosen == before {
			break
		}
	}
	return chosen
}

// Domain returns the CPUs among which a pod with these reserved CPUs may borrow, and the name of this domain in
// placements. It is the L3 domain that has all reserved CPUs, or else the NUMA node. If another writer's annotation
// names CPUs in several nodes, it is the node of the first CPU.
func Domain(t *topology.Topology, reserved cpuset.Set) (name string, cpus cpuset.Set) {
	for i := range t.L3 {
		if l3 := &t.L3[i]; reserved.IsSubsetOf(l3.CPUs) {
			return fmt.Sprintf("l3:%d", l3.ID), l3.CPUs
		}
	}
	for i := range t.Nodes {
		if node := &t.Nodes[i]; reserved.IsSubsetOf(node.CPUs) {
			return fmt.Sprintf("numa:%d", node.ID), node.CPUs
		}
	}
	first, _ := reserved.Min()
	for i := range t.Nodes {
		if node := &t.Nodes[i]; node.CPUs.Contains(first) {
			return fmt.Sprintf("numa:%d", node.ID), node.CPUs
		}
	}
	return "numa:0", cpuset.Set{}
}

// WholeFirst returns n of the CPUs, whole cores before single threads.
func WholeFirst(t *topology.Topology, cpus cpuset.Set, n int) cpuset.Set {
	var some cpuset.Set
	for i := range t.Cores {
		if core := t.Cores[i].CPUs; core.IsSubsetOf(cpus) && some.Size()+core.Size() <= n {
			some = some.Union(core)
		}
	}
	for cpu := range cpus.Difference(some).All() {
		if some.Size() < n {
			some = some.Add(cpu)
		}
	}
	return some
}
