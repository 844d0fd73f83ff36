package lending

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/topology"
	"github.com/berth-project/berth/internal/unit"
)

// mark is by how much a borrower's core may be busier than another core, in CPUs, before it is exchanged: each change
// moves threads away from their caches.
const mark = 0.25

// rank returns the cores to borrow from, the least used first. Without use, it returns only the cores that the borrower
// has.
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

// spread returns n CPUs of the cores, or all: one thread of every core before a second of any, of the first cores
// first.
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

// Domain returns where a pod with these CPUs may borrow, and its name in placements: the smallest of L3 domain and NUMA
// node that has all of them. Another writer's annotation may have CPUs in several nodes; then the node of the first CPU
// is used.
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

// WholeFirst returns n of the CPUs, whole cores before others.
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
