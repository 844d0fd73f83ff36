package place_test

import (
	"testing"

	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// hybrid returns the facts of a machine with performance cores of two CPUs and efficiency cores of one.
func hybrid(t *testing.T, performance, efficiency int) place.Facts {
	t.Helper()
	top := &topology.Topology{}
	cpu := 0
	add := func(threads int, kind topology.Kind) {
		core := topology.Core{ID: topology.CoreID(cpu), Kind: kind}
		for range threads {
			core.CPUs = core.CPUs.Add(cpu)
			cpu++
		}
		top.Cores, top.Online = append(top.Cores, core), top.Online.Union(core.CPUs)
	}
	for range performance {
		add(2, topology.KindPerformance)
	}
	for range efficiency {
		add(1, topology.KindEfficiency)
	}
	top.L3 = []topology.L3{{CPUs: top.Online}}
	top.Nodes = []topology.Node{{CPUs: top.Online, MemoryBytes: gi, Distances: []int{10}}}
	top.Sockets = []topology.Socket{{CPUs: top.Online}}
	m, err := alloc.Compile(top)
	if err != nil {
		t.Fatal(err)
	}
	return place.Facts{Machine: m, Hash: hash, AllocatableMilli: int64(cpu) * 1000, Pinnable: true}
}

// Free is what pods can get: one pod can get all of it, and never one CPU more.
func TestFreeCanBeGivenOut(t *testing.T) {
	pins := func(facts place.Facts, taken string) *place.Node {
		n := place.New(facts)
		if cpus := set(t, taken); !cpus.IsEmpty() {
			n.Pods.Put(placed(pod("old", 1, app("app", int64(cpus.Size()))), "app", taken, nodesOf(facts.Machine, cpus)))
			start(t, n, "old", "app")
		}
		return n
	}
	tests := []struct {
		name  string
		facts place.Facts
		taken string
		free  string
	}{
		{"nothing is pinned", two().facts(t), "", "0-6,8-14"},
		{"the last core is taken", two().facts(t), "7,15", "0-5,8-13"},
		{"one whole core is left, and a half", two().facts(t), "0-6,8-13", "14"},
		{"one whole core is left", two().facts(t), "0-6,8-14", ""},
		{"a reserved core is not in the pool", shape{nodes: 1, l3: 1, cores: 3, threads: 2, memory: gi, reserved: "2,5"}.facts(t), "", "0,3"},
		{"an efficiency core stays instead", hybrid(t, 2, 2), "", "0-3"},
		{"no CPU but of efficiency cores", hybrid(t, 2, 2), "0-3", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := pins(test.facts, test.taken).Snapshot()
			free := s.Free
			equal(t, "free", free.String(), test.free)
			if free.IsEmpty() && (s.Fragmentation.Percent != 0 || s.Fragmentation.FreeCPUs != 0) {
				t.Errorf("a full machine has %+v", s.Fragmentation)
			}
			for more := range 2 {
				n := pins(test.facts, test.taken)
				want := int64(free.Size() + more)
				if want == 0 {
					continue
				}
				n.Pods.Put(pod("next", 2, app("app", want)))
				a := create(t, n, "next", "app")
				if got := len(a.Own) > 0 && a.Own[0].Pinned; got != (more == 0) {
					t.Errorf("%d CPUs: given %v of %s", want, got, free)
				}
			}
		})
	}
}

func nodesOf(m *alloc.Machine, cpus cpuset.Set) string {
	var nodes cpuset.Set
	for _, node := range m.Topology().Nodes {
		if node.CPUs.Intersects(cpus) {
			nodes = nodes.Add(int(node.ID))
		}
	}
	return nodes.String()
}
