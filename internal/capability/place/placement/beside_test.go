package placement_test

import (
	"fmt"
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
	_ "github.com/berth-project/berth/test/chance" // fixes the cases of the properties
)

// TestEmptyNodeKeepsItsPromises: the core that stays with the shared pool needs no neighbor. A node without pods
// refuses no request that some set of CPUs leaving a whole core could satisfy. It also gives up no exclusivity that
// such a set would grant.
func TestEmptyNodeKeepsItsPromises(t *testing.T) {
	var shapes []shape
	for _, s := range []shape{
		{nodes: 1, l3: 1, cores: 4, threads: 2},
		{nodes: 2, l3: 1, cores: 2, threads: 2},
		{nodes: 2, l3: 2, cores: 1, threads: 2},
		{nodes: 3, l3: 1, cores: 2, threads: 2},
		{nodes: 1, l3: 2, cores: 2, threads: 1},
		{nodes: 2, l3: 1, cores: 1, threads: 4},
	} {
		shapes = append(shapes, s)
		s.reserved = "0"
		shapes = append(shapes, s)
		s.slow = 1
		shapes = append(shapes, s)
	}
	rapid.Check(t, func(rt *rapid.T) {
		pick := func(name string, values ...string) string { return rapid.SampledFrom(values).Draw(rt, name) }
		s := rapid.SampledFrom(shapes).Draw(rt, "shape")
		n := s.node(t)
		all := n.Machine.Topology().Online.Size()
		ask := placement.AskOf(one(t, int64(rapid.IntRange(1, all).Draw(rt, "CPUs")),
			resourceSpec, fmt.Sprintf(`{"%sCPUBindPolicy":"%s","%sCPUExclusivePolicy":"%s"}`,
				pick("bind", "required", "preferred"), pick("bind policy", "FullPCPUs", "SpreadByPCPUs"),
				pick("exclusive", "required", "preferred"), pick("exclusive policy", "None", "PCPULevel", "NUMANodeLevel")),
			"scheduling.koordinator.sh/numa-topology-spec", fmt.Sprintf(`{"numaTopologyPolicy":"%s","singleNUMANodeExclusive":"%s"}`,
				pick("NUMA", "", "BestEffort", "SingleNUMANode"), pick("NUMA exclusive", "", "Preferred", "Required"))))
		d, refusal := placement.Decide(&alloc.Scratch{}, n, &placement.Occupancy{}, &ask)
		granted := leavesACore(n.Machine.Topology(), &ask.Request, ask.Request.Exclusive)
		dropped := leavesACore(n.Machine.Topology(), &ask.Request, alloc.NotExclusive) && ask.Request.ExclusiveStrength == alloc.Preferred
		switch {
		case refusal.OK() != (granted || dropped):
			rt.Fatalf("%+v %+v: %q, CPUs that leave a core: %t", s, ask.Request, refusal.Detail(), granted || dropped)
		case refusal.OK() && granted && d.Answer.Dropped != 0:
			rt.Fatalf("%+v %+v: %s gives up %d", s, ask.Request, d.Answer.CPUs, d.Answer.Dropped)
		}
	})
}

// leavesACore reports whether any set of CPUs on an empty machine satisfies the request and leaves a whole core.
func leavesACore(t *topology.Topology, r *alloc.Request, e alloc.Exclusive) bool {
	online := slices.Collect(t.Online.All())
	for sub := range 1 << len(online) {
		if bits.OnesCount(uint(sub)) != r.Wants[0].CPUs {
			continue
		}
		var cpus cpuset.Set
		for i, cpu := range online {
			if sub>>i&1 != 0 {
				cpus = cpus.Add(cpu)
			}
		}
		if keepsPolicies(t, r, e, cpus) {
			return true
		}
	}
	return false
}

func keepsPolicies(t *topology.Topology, r *alloc.Request, e alloc.Exclusive, cpus cpuset.Set) bool {
	leaves := false
	nodes := map[topology.NodeID]bool{}
	for _, core := range t.Cores {
		in := core.CPUs.Intersect(cpus)
		if in.IsEmpty() {
			leaves = leaves || !core.CPUs.Intersects(t.Reserved)
			continue
		}
		nodes[core.Node] = true
		switch whole := in == core.CPUs; {
		case in.Intersects(t.Reserved), core.Kind == topology.KindEfficiency,
			e == alloc.PCPULevel && core.CPUs.Intersects(t.Reserved),
			r.BindStrength == alloc.Required && r.Bind == alloc.FullPCPUs && !whole,
			r.BindStrength == alloc.Required && r.Bind == alloc.SpreadByPCPUs && in.Size() > 1:
			return false
		}
	}
	return leaves && (r.NUMA != alloc.SingleNUMANode || len(nodes) == 1)
}
