package placement_test

import (
	"testing"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/placement"
)

// A refusal is a fragmentation if the number of free CPUs would suffice, less the core that stays with the shared pool.
// It then says how many CPUs are missing where the pod needs them.
func TestShortage(t *testing.T) {
	numa := func(policy string) []string {
		return []string{"scheduling.koordinator.sh/numa-topology-spec", `{"numaTopologyPolicy":"` + policy + `"}`}
	}
	cores := []string{resourceSpec, `{"requiredCPUBindPolicy":"FullPCPUs"}`}
	alone := []string{resourceSpec, `{"requiredCPUExclusivePolicy":"PCPULevel"}`}
	for _, test := range []struct {
		name        string
		taken       string
		pod         int64
		keys        []string
		constraint  placement.Constraint
		free, lacks int
		text        string
	}{
		{
			"whole cores", "0,1,2,4,5,6", 6, cores, placement.ShortOfCores, 8, 2,
			"8 free CPUs, but fewer than 3 free cores: there are 2 (2 missing)",
		},
		{
			"one NUMA node", "0,8,4,12", 8, numa("SingleNUMANode"), placement.ShortOfNUMA, 10, 2,
			"10 free CPUs, but fewer than 8 free CPUs in one NUMA node: the most there are is 6 (2 missing)",
		},
		{
			"one L3 or NUMA node", "0,8,4,12", 7,
			[]string{"cpu-policy", "static-burst"},
			placement.ShortOfL3, 10, 1,
			"10 free CPUs, but fewer than 7 free CPUs in one L3 or NUMA node: the most there are is 6 (1 missing)",
		},
		{
			"cores of its own", "0,1,2,3,4,5", 6, alone, placement.ShortOfExclusive, 8, 2,
			"8 free CPUs, but fewer than 6 CPUs on cores without another pod: there are 4 (2 missing)",
		},
		{
			"the shared pool's core", "0-7", 4, nil, placement.ShortOfPool, 6, 2,
			"6 free CPUs, but no whole core left for the shared pool: 4 CPUs wanted, 8 left (2 missing)",
		},
		{
			"whole cores, and no whole core is left", "0-6", 4, cores, placement.ShortOfCores, 7, 2,
			"7 free CPUs, but fewer than 2 free cores: there are 1 (2 missing)",
		},
		{"all that is free, with the shared pool's core", "0,1,2,4,5,6", 10, cores, "", 0, 0, ""},
		{"too few CPUs", "0-5,8-13", 6, cores, "", 0, 0, ""},
		{"too few for the pool too", "0-5,8-13", 4, nil, "", 0, 0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := shape{nodes: 2, l3: 2, cores: 2, threads: 2}.node(t)
			var o placement.Occupancy
			n.Machine.Hold(&o.Taken, alloc.Holding{CPUs: set(t, test.taken)})
			p := one(t, test.pod, test.keys...)
			no, a := refused(t, n, &o, p), placement.AskOf(p)
			got, found := n.Shortage(&o, &a, no)
			if found != (test.constraint != "") {
				t.Fatalf("%s: %+v, %t", no.Detail(), got, found)
			}
			if found && (got.Constraint != test.constraint || got.Free != test.free || got.Missing != test.lacks || got.String() != test.text) {
				t.Errorf("%s, %d free, %d missing: %s", got.Constraint, got.Free, got.Missing, got)
			}
		})
	}
	if _, found := new(placement.Node).Shortage(&placement.Occupancy{}, &placement.Ask{}, placement.Refusal{Code: placement.NoTopology}); found {
		t.Error("a node without topology is short of CPUs")
	}
}
