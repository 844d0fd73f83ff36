package hardware

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/node/kubelet"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// recorded is a machine of testdata.
func recorded(t *testing.T, name string) fstest.MapFS {
	t.Helper()
	archive, err := txtar.ParseFile("../../../../testdata/machines/" + name + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	tree := fstest.MapFS{}
	for _, f := range archive.Files {
		tree[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	return tree
}

func set(t *testing.T, list string) cpuset.Set {
	t.Helper()
	s, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A host is read again when what decides about its CPUs is another thing than before, and
// stays as it was known while it cannot be read.
func TestUpdate(t *testing.T) {
	tree := recorded(t, "vm-2s2n-smt")
	online, err := topology.Discover(tree)
	if err != nil {
		t.Fatal(err)
	}
	basis := Basis{Online: online.Online}
	var m Machine
	if _, changed, err := m.Update(fstest.MapFS{}, basis, 0); !errors.Is(err, topology.ErrNoMachine) || changed || m.Topology != nil {
		t.Errorf("no machine: changed %t, %v", changed, err)
	}
	updates := func(what string, b Basis, want bool) place.Facts {
		t.Helper()
		facts, changed, err := m.Update(tree, b, 0)
		if err != nil || changed != want {
			t.Errorf("%s: changed %t, %v", what, changed, err)
		}
		if changed && (facts.Machine == nil || facts.Hash != m.Topology.Hash() || facts.Policy != b.Policy) {
			t.Errorf("%s: facts %+v", what, facts)
		}
		return facts
	}
	updates("the first time", basis, true)
	updates("the same", basis, false)
	all := int64(online.Online.Size()) * 1000
	if got := m.AllocatableMilli(); got != all {
		t.Errorf("allocatable %d, want %d", got, all)
	}
	basis.Reserved = set(t, "0-1")
	updates("reserved CPUs", basis, true)
	if got := m.AllocatableMilli(); got != all-2000 || m.Reserved() != basis.Reserved || m.Topology.Reserved != basis.Reserved {
		t.Errorf("allocatable %d of %d, reserved %s", got, all, m.Reserved())
	}
	basis.Partitioned = set(t, "6-7,99")
	facts := updates("a partition", basis, true)
	if taken := set(t, "6-7"); m.Topology.Partitioned != taken || !taken.IsSubsetOf(m.Topology.Isolated) || facts.Machine.Pinnable().Intersects(taken) {
		t.Errorf("partitioned %s, isolated %s, pinnable %s", m.Topology.Partitioned, m.Topology.Isolated, facts.Machine.Pinnable())
	}
	basis.Policy = placement.NodePolicy{Strategy: v1alpha1.NUMALeastAllocated}
	updates("another policy", basis, true)
	basis.Online = set(t, "0-3")
	if _, changed, err := m.Update(fstest.MapFS{}, basis, 0); err == nil || changed || m.Topology == nil || m.Reserved() != basis.Reserved {
		t.Errorf("gone: changed %t, %v", changed, err)
	}
	updates("back", basis, true)
}

// The devices of the kubelet are part of the machine, which is another one when they change. Placements stay valid: the
// hash covers CPUs only.
func TestDevicesAreOfTheMachine(t *testing.T) {
	tree := recorded(t, "vm-2s2n-smt")
	var m Machine
	before, _, err := m.Update(tree, Basis{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	basis := Basis{Devices: []kubelet.Device{{Resource: "example.com/gpu", Node: 1, Count: 2}}}
	for _, want := range []bool{true, false} {
		facts, changed, err := m.Update(tree, basis, 0)
		if err != nil || changed != want {
			t.Fatalf("changed %t, want %t: %v", changed, want, err)
		}
		if changed && (facts.Machine == before.Machine || facts.Hash != before.Hash || len(facts.Machine.Topology().Devices) != 1) {
			t.Errorf("facts %+v, devices %v", facts, facts.Machine.Topology().Devices)
		}
	}
	spec, _ := m.Report(&place.Snapshot{})
	if want := []v1alpha1.NodeDevice{{Resource: "example.com/gpu", PerNUMANode: []int64{0, 2}}}; !cmp.Equal(spec.Devices, want) {
		t.Errorf("published %v, want %v", spec.Devices, want)
	}
}

// Memory that comes and goes is seen within ten seconds, and published; less than a hundredth is
// no change. Nodes that are more or less than the machine are said to be doubtful.
func TestMemoryChanges(t *testing.T) {
	tree := recorded(t, "vm-2s2n-smt")
	const gibi = 1 << 20 // in kB
	set := func(name string, kib int) {
		tree[name] = &fstest.MapFile{Data: fmt.Appendf(nil, "Node 1 MemTotal: %d kB\nNode 1 MemFree: 1 kB\n", kib)}
	}
	const node0, node1, machine = "sys/devices/system/node/node0/meminfo", "sys/devices/system/node/node1/meminfo", "proc/meminfo"
	set(node0, 16*gibi)
	set(node1, 16*gibi)
	var m Machine
	for _, step := range []struct {
		what           string
		at             time.Duration
		node1, machine int // in kB, 0 for as before
		changed, doubt bool
		want           int64 // GiB of node 1
	}{
		{"the first time", 0, 0, 32 * gibi, true, false, 16},
		{"looked at a moment ago", 9 * time.Second, 24 * gibi, 40 * gibi, false, false, 16},
		{"plugged", 10 * time.Second, 0, 0, true, false, 24},
		{"a balloon breathes", 20 * time.Second, 24*gibi - gibi/5, 0, false, false, 24},
		{"balloon", 30 * time.Second, 12 * gibi, 28 * gibi, true, false, 12},
		{"a container's own file", 40 * time.Second, 0, 4 * gibi, false, true, 12},
		{"nodes that lack some", 50 * time.Second, 0, 32 * gibi, false, true, 12},
		{"as one should be", 60 * time.Second, 0, 28 * gibi, false, false, 12},
		{"unplugged", 70 * time.Second, 1, 16 * gibi, true, false, 0},
	} {
		if step.node1 > 0 {
			set(node1, step.node1)
		}
		if step.machine > 0 {
			set(machine, step.machine)
		}
		_, changed, err := m.Update(tree, Basis{}, step.at)
		if err != nil || changed != step.changed || (m.Doubt() != "") != step.doubt {
			t.Errorf("%s: changed %t, doubt %q, %v", step.what, changed, m.Doubt(), err)
		}
		spec, _ := m.Report(&place.Snapshot{})
		if bytes := spec.NUMANodes[1].MemoryBytes >> 30; bytes != step.want {
			t.Errorf("%s: %d GiB published, want %d", step.what, bytes, step.want)
		}
	}
	set(machine, 8*gibi)
	if all, err := topology.Discover(tree); err != nil || !slices.ContainsFunc(all.Warnings, func(w string) bool { return strings.Contains(w, "/proc/meminfo") }) {
		t.Errorf("warnings %q, %v", all.Warnings, err)
	}
	page := "sys/devices/system/node/node0/hugepages/hugepages-1048576kB/nr_hugepages"
	tree[page] = &fstest.MapFile{Data: []byte("4\n")}
	if _, changed, err := m.Update(tree, Basis{}, 80*time.Second); err != nil || !changed || m.Topology.Nodes[0].HugePageBytes != 4<<30 {
		t.Errorf("huge pages: changed %t, %+v, %v", changed, m.Topology.Nodes[0], err)
	}
	want := []v1alpha1.HugePagePool{{PageKiB: 1 << 20, Pages: 4}}
	if spec, _ := m.Report(&place.Snapshot{}); !cmp.Equal(spec.NUMANodes[0].HugePages, want) {
		t.Errorf("published %v, want %v", spec.NUMANodes[0].HugePages, want)
	}
}

// What is published has the machine's sizes, and what a snapshot says is given out.
func TestReport(t *testing.T) {
	var m Machine
	tree := recorded(t, "vm-2s2n-smt")
	if _, _, err := m.Update(tree, Basis{}, 0); err != nil {
		t.Fatal(err)
	}
	s := &place.Snapshot{Exclusive: set(t, "2-3"), Shared: set(t, "0-1,4-7"), Free: set(t, "4-7")}
	s.Fragmentation.Percent = 25
	s.Nodes = append(s.Nodes, placement.NodeFree{ID: 1, FreeCPUs: 4, FreeCores: 2})
	spec, status := m.Report(s)
	want := v1alpha1.NodeTopologyStatus{
		PlacementVersions: []int64{v1alpha1.PlacementVersion},
		Counts: v1alpha1.NodeTopologyCounts{
			Sockets: 2, NUMANodes: 2, L3: 2, Cores: 4, CPUs: 8,
		},
		Pools:     v1alpha1.NodePools{Exclusive: "2-3", Shared: "0-1,4-7"},
		NUMANodes: []v1alpha1.NUMANodeStatus{{ID: 1, FreeCPUs: 4, FreeCores: 2}},
		FreeCPUs:  4, Fragmentation: 25,
	}
	if diff := cmp.Diff(want, status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if spec.Hash != m.Topology.Hash() || len(spec.Cores) == 0 {
		t.Errorf("spec of %s with %d cores, want that of %s", spec.Hash, len(spec.Cores), m.Topology.Hash())
	}
}
