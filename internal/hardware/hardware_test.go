package hardware

import (
	"errors"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/place"
	"github.com/berth-project/berth/internal/placement"
	"github.com/berth-project/berth/internal/topology"
)

// recorded is a machine of testdata.
func recorded(t *testing.T, name string) fstest.MapFS {
	t.Helper()
	archive, err := txtar.ParseFile("../../testdata/machines/" + name + ".txtar")
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
	if _, changed, err := m.Update(fstest.MapFS{}, basis); !errors.Is(err, topology.ErrNoMachine) || changed || m.Topology != nil {
		t.Errorf("no machine: changed %t, %v", changed, err)
	}
	updates := func(what string, b Basis, want bool) place.Facts {
		t.Helper()
		facts, changed, err := m.Update(tree, b)
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
	basis.Policy = placement.NodePolicy{Strategy: v1alpha1.NUMALeastAllocated}
	updates("another policy", basis, true)
	basis.Online = set(t, "0-3")
	if _, changed, err := m.Update(fstest.MapFS{}, basis); err == nil || changed || m.Topology == nil || m.Reserved() != basis.Reserved {
		t.Errorf("gone: changed %t, %v", changed, err)
	}
	updates("back", basis, true)
}

// What is published has the machine's sizes, and what a snapshot says is given out.
func TestReport(t *testing.T) {
	var m Machine
	tree := recorded(t, "vm-2s2n-smt")
	if _, _, err := m.Update(tree, Basis{}); err != nil {
		t.Fatal(err)
	}
	s := place.Snapshot{Exclusive: set(t, "2-3"), Shared: set(t, "0-1,4-7"), Free: set(t, "4-7")}
	s.Fragmentation.Percent = 25
	s.Nodes = append(s.Nodes, place.NodeFree{ID: 1, FreeCPUs: 4, FreeCores: 2})
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
