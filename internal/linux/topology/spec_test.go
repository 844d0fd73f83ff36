package topology_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// carried returns t without the fields that a spec does not contain.
func carried(t *topology.Topology) *topology.Topology {
	c := *t
	c.Caches, c.Warnings, c.NoHzFull = []topology.Cache{}, []string{}, cpuset.Set{}
	c.Cores = slices.Clone(t.Cores)
	for i := range c.Cores {
		lowest, _ := c.Cores[i].CPUs.Min()
		c.Cores[i].ID = topology.CoreID(lowest)
	}
	return &c
}

// checkSpec sends a machine through the JSON of a spec and returns the result.
func checkSpec(t reporter, found *topology.Topology) *topology.Topology {
	t.Helper()
	data, err := json.Marshal(found.Spec())
	if err != nil {
		t.Fatal(err)
	}
	var spec v1alpha1.NodeTopologySpec
	if err := json.Unmarshal(data, &spec); err != nil {
		t.Fatal(err)
	}
	again, err := topology.FromSpec(spec)
	if err != nil {
		t.Fatal(string(data), err)
	}
	if diff := diff(carried(found), again); diff != "" || again.Hash() != found.Hash() || again.Counts() != found.Counts() {
		t.Fatal(string(data), "through the spec (-before +after):\n", diff)
	}
	return again
}

func TestSpecKeepsMachines(t *testing.T) {
	for _, name := range machineFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			found := discover(t, open(t, name))
			found.Reserved, _ = cpuset.Of(0, 1)
			checkInvariants(t, checkSpec(t, found))
		})
	}
}

// TestSpecKeepsRandomMachines checks that a spec preserves machines with a random numbering of the CPUs.
func TestSpecKeepsRandomMachines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		few := rapid.IntRange(1, 3)
		s := symmetric{few.Draw(t, "sockets"), few.Draw(t, "nodes"), few.Draw(t, "l3s"), few.Draw(t, "cores"), few.Draw(t, "threads"), rapid.Bool().Draw(t, "adjacent")}
		ids := make([]int, len(s.machine().cpus))
		for i := range ids {
			ids[i] = i
		}
		checkSpec(t, discover(t, parse(t, generated{machine: renumber(s.machine(), rapid.Permutation(ids).Draw(t, "ids"))}.text())))
	})
}

// renumber gives CPU i the number ids[i].
func renumber(m machine, ids []int) machine {
	cpus := map[int]cpu{}
	for id, c := range m.cpus {
		cpus[ids[id]] = c
	}
	m.cpus = cpus
	return m
}

// inTurn numbers the cores of m round-robin across NUMA nodes, as some firmware does.
func inTurn(m machine) machine {
	nodes, cores := len(m.nodes), 0
	for _, c := range m.cpus {
		cores = max(cores, c.core+1)
	}
	ids := make([]int, len(m.cpus))
	for id, c := range m.cpus {
		core := c.core%(cores/nodes)*nodes + c.node
		ids[id] = id/cores*cores + core
	}
	return renumber(m, ids)
}

// TestSpecSize checks that a NodeTopology stays small.
func TestSpecSize(t *testing.T) {
	for _, test := range []struct {
		name string
		m    machine
		most int
	}{
		{"256 CPUs, 2 nodes", symmetric{2, 1, 1, 64, 2, false}.machine(), 4096},
		{"256 CPUs, 2 nodes, 16 L3", symmetric{2, 1, 8, 8, 2, false}.machine(), 4096},
		{"256 CPUs, 8 nodes, 32 L3", symmetric{2, 4, 4, 4, 2, false}.machine(), 4096},
		{"256 CPUs, 8 nodes, 32 L3, adjacent threads", symmetric{2, 4, 4, 4, 2, true}.machine(), 4096},
		{"256 CPUs, 2 nodes, in turn", inTurn(symmetric{2, 1, 1, 64, 2, false}.machine()), 4096},
		{"256 CPUs, 8 nodes, 32 L3, in turn", inTurn(symmetric{2, 4, 4, 4, 2, false}.machine()), 4096},
		{"256 CPUs, one thread a core, 8 nodes", symmetric{2, 4, 4, 8, 1, false}.machine(), 4096},
		{"512 CPUs, 8 nodes, 32 L3", large(), 8192},
		{"512 CPUs, 8 nodes, 32 L3, in turn", inTurn(large()), 8192},
	} {
		t.Run(test.name, func(t *testing.T) {
			found := discover(t, parse(t, generated{machine: test.m}.text()))
			for i := range found.Nodes {
				found.Nodes[i].MemoryBytes = 1099511627776 - 1024 // 13 digits
			}
			checkSpec(t, found)
			data, err := json.Marshal(found.Spec())
			if err != nil {
				t.Fatal(err)
			}
			if len(data) > test.most {
				t.Errorf("%d bytes, at most %d: %s", len(data), test.most, data)
			}
			t.Logf("%d bytes", len(data))
		})
	}
}

func TestSpecLists(t *testing.T) {
	for _, test := range []struct{ list, want string }{
		{"", ""},
		{"0-3,8", "0-3,8"},
		{"0,2,4,6", "0,2,4,6"}, // the shorter of the two formats, the plain one if they are equal
		{"0,2,4,6,8", "0-8:1/2"},
		{"0-1,8-9,16-17,24-25,64", "0-25:2/8,64"},
		{"0,100,102,104,106,200-203", "0,100-106:1/2,200-203"},
	} {
		set, err := cpuset.Parse(test.list)
		if err != nil {
			t.Fatal(err)
		}
		found := topology.Topology{Isolated: set}
		if got := found.Spec().IsolatedCPUs; string(got) != test.want {
			t.Errorf("%q: got %q, want %q", test.list, got, test.want)
		}
	}
}

// lie is one change that makes a good spec wrong, with the text that the error must contain.
type lie struct {
	name   string
	change func(*v1alpha1.NodeTopologySpec)
	want   string
}

func TestFromSpecRefuses(t *testing.T) {
	good := func() v1alpha1.NodeTopologySpec {
		return discover(t, parse(t, generated{machine: symmetric{2, 1, 1, 2, 2, false}.machine()}.text())).Spec()
	}
	if _, err := topology.FromSpec(good()); err != nil {
		t.Fatal(err)
	}
	for _, test := range []lie{
		{"overlapping L3", func(s *v1alpha1.NodeTopologySpec) { s.L3[1].CPUs = "1-3" }, "l3[1].cpus"},
		{"CPU in two cores", func(s *v1alpha1.NodeTopologySpec) { s.Cores[1] = "0,5" }, "cores[1]"},
		{"core without CPUs", func(s *v1alpha1.NodeTopologySpec) { s.Cores[1] = "" }, "cores[1]"},
		{"no cores", func(s *v1alpha1.NodeTopologySpec) { s.Cores = nil }, "cores: missing"},
		{"CPU 2000", func(s *v1alpha1.NodeTopologySpec) { s.Online = "0-2000" }, "online CPU list"},
		{"2,000 cores", func(s *v1alpha1.NodeTopologySpec) { s.Cores = make([]v1alpha1.CPUList, 2000) }, "cores: 2000 of them"},
		{"no list", func(s *v1alpha1.NodeTopologySpec) { s.Cores[0] = "0,x" }, "cores[0] CPU list"},
		{"online without a core", func(s *v1alpha1.NodeTopologySpec) { s.Online = "0-8" }, "online"},
		{"offline and online", func(s *v1alpha1.NodeTopologySpec) { s.Offline = "3" }, "offline"},
		{"part of a core", func(s *v1alpha1.NodeTopologySpec) { s.Sockets[0].CPUs = "0" }, "sockets[0].cpus"},
		{"socket twice", func(s *v1alpha1.NodeTopologySpec) { s.Sockets[1].ID = 0 }, "sockets[1].id"},
		{"NUMA node 1024", func(s *v1alpha1.NodeTopologySpec) { s.NUMANodes[1].ID = 1024 }, "numaNodes[1].id"},
		{"negative node", func(s *v1alpha1.NodeTopologySpec) { s.NUMANodes[1].ID = -1 }, "numaNodes[1].id"},
		{"too few distances", func(s *v1alpha1.NodeTopologySpec) { s.NUMANodes[1].Distances = []int64{10} }, "numaNodes[1].distances"},
		{"distance that overflows", func(s *v1alpha1.NodeTopologySpec) { s.NUMANodes[1].Distances[0] = 1 << 62 }, "numaNodes[1].distances[0]"},
		{"memory that overflows", func(s *v1alpha1.NodeTopologySpec) { s.NUMANodes[0].MemoryBytes = 1 << 62 }, "numaNodes[0].memoryBytes"},
		{"many nodes", func(s *v1alpha1.NodeTopologySpec) { s.NUMANodes = make([]v1alpha1.NUMANode, 257) }, "numaNodes: 257 of them"},
		{"unknown efficiency CPU", func(s *v1alpha1.NodeTopologySpec) { s.EfficiencyCPUs = "0,4,9" }, "efficiencyCPUs"},
		{"half an efficiency core", func(s *v1alpha1.NodeTopologySpec) { s.EfficiencyCPUs = "0" }, "efficiencyCPUs"},
		{"socket of a die", func(s *v1alpha1.NodeTopologySpec) { s.Dies[0].Socket = -2 }, "dies[0].socket"},
		{"hash of another", func(s *v1alpha1.NodeTopologySpec) { s.Hash = "0123456789abcdef" }, "hash"},
		{"cores of another shape", func(s *v1alpha1.NodeTopologySpec) { s.Cores = []v1alpha1.CPUList{"0-1", "4-5", "2,6", "3,7"} }, "hash"},
	} {
		spec := good()
		test.change(&spec)
		if _, err := topology.FromSpec(spec); !errors.Is(err, topology.ErrInvalid) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", test.name, err, test.want)
		}
	}
}

// TestHashSurvivesWhatPlacementsSurvive changes fields that the hash must not cover, because placements stay valid.
func TestHashSurvivesWhatPlacementsSurvive(t *testing.T) {
	spec := discover(t, parse(t, generated{machine: symmetric{2, 1, 2, 2, 2, false}.machine()}.text())).Spec()
	spec.NUMANodes[0].MemoryBytes, spec.NUMANodes[0].Distances[1] = 1, 99
	spec.EfficiencyCPUs, spec.ReservedCPUs, spec.IsolatedCPUs, spec.Offline = "0,8", "1", "2", "64"
	spec.L3[0].ID, spec.Dies = 77, nil
	if _, err := topology.FromSpec(spec); err != nil {
		t.Error(err)
	}
}

func FuzzFromSpec(f *testing.F) {
	for _, m := range []machine{symmetric{2, 1, 1, 2, 2, false}.machine(), inTurn(symmetric{2, 2, 1, 3, 1, false}.machine())} {
		data, err := json.Marshal(discover(f, parse(f, generated{machine: m}.text())).Spec())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var spec v1alpha1.NodeTopologySpec
		if json.Unmarshal(data, &spec) != nil {
			return
		}
		_, err := topology.FromSpec(spec)
		if err != nil {
			if !errors.Is(err, topology.ErrInvalid) {
				t.Fatalf("%v is not ErrInvalid", err)
			}
			// A wrong hash would hide all errors that are checked after it.
			_, right, found := strings.Cut(err.Error(), `allowed: "`)
			if !found || !strings.Contains(err.Error(), "hash") {
				return
			}
			spec.Hash = strings.SplitN(right, `"`, 2)[0]
		}
		if found, err := topology.FromSpec(spec); err == nil {
			checkSpec(t, found)
		} else {
			t.Fatalf("%s with hash %s: %v", data, spec.Hash, err)
		}
	})
}

func TestSpecIsStable(t *testing.T) {
	found := discover(t, parse(t, generated{machine: large()}.text()))
	if diff := cmp.Diff(found.Spec(), found.Spec()); diff != "" {
		t.Error(diff)
	}
	if got := fmt.Sprint(found.Counts()); got != "{2 8 32 256 512}" {
		t.Errorf("counts %s", got)
	}
}
