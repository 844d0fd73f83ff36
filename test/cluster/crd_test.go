package cluster

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// grid returns a machine with 2 threads per core, numbered as Linux does: all first threads, then all second threads.
// The counts are those of the whole machine.
func grid(t *testing.T, sockets, nodes, domains, cores int) *topology.Topology {
	t.Helper()
	type group struct {
		ID          int        `json:"id"`
		CPUs        cpuset.Set `json:"cpus"`
		MemoryBytes int64      `json:"memoryBytes,omitempty"`
		Distances   []int      `json:"distances,omitempty"`
	}
	type core struct {
		ID     int        `json:"id"`
		CPUs   cpuset.Set `json:"cpus"`
		Socket int        `json:"socket"`
		NUMA   int        `json:"numa"`
		L3     int        `json:"l3"`
	}
	deal := func(count int) []group {
		groups := make([]group, count)
		for c := range cores {
			g := &groups[c*count/cores]
			g.ID, g.CPUs = c*count/cores, g.CPUs.Add(c).Add(c+cores)
		}
		return groups
	}
	document := map[string]any{"sockets": deal(sockets), "l3": deal(domains)}
	numa := deal(nodes)
	var online cpuset.Set
	for i := range numa {
		online = online.Union(numa[i].CPUs)
		numa[i].MemoryBytes = 64 << 30
		for j := range numa {
			distance := 10
			if i != j {
				distance = 12 + 20*(max(i*sockets/nodes, j*sockets/nodes)-min(i*sockets/nodes, j*sockets/nodes))
			}
			numa[i].Distances = append(numa[i].Distances, distance)
		}
	}
	var all []core
	for c := range cores {
		pair, err := cpuset.Of(c, c+cores)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, core{ID: c, CPUs: pair, Socket: c * sockets / cores, NUMA: c * nodes / cores, L3: c * domains / cores})
	}
	document["online"], document["numaNodes"], document["cores"] = online, numa, all
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	machine, err := topology.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	return machine
}

// machineNames returns the names of the recorded machines.
func machineNames(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "testdata", "machines", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded machines: %v", err)
	}
	var names []string
	for _, file := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(file), ".txtar"))
	}
	return names
}

// definesNodeTopology checks which NodeTopology objects the API server stores, shows and refuses.
func (s *stand) definesNodeTopology(t *testing.T) {
	within(t, func() string {
		if _, err := s.dynamic.Resource(nodeTopologies()).List(t.Context(), metav1.ListOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	t.Run("every recorded machine is stored as it is", s.storesRecordedMachines)
	t.Run("256 CPUs fit", s.storesLargeMachine)
	t.Run("columns", s.printsColumns)
	t.Run("objects that lie are refused", s.refusesLies)
	t.Run("unknown fields are dropped", s.dropsUnknownFields)
}

func (s *stand) storesRecordedMachines(t *testing.T) {
	for _, name := range machineNames(t) {
		machine := recorded(t, name)
		s.putTopology(t, topologyObject(name, machine))
		if got := s.storedTopology(t, name); got.Hash() != machine.Hash() {
			t.Errorf("%s: stored hash %s, want %s", name, got.Hash(), machine.Hash())
		}
	}
}

// storedTopology reads an object back from the API server, as the scheduler does.
func (s *stand) storedTopology(t *testing.T, name string) *topology.Topology {
	t.Helper()
	stored, err := s.dynamic.Resource(nodeTopologies()).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := stored.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var object v1alpha1.NodeTopology
	if err := json.Unmarshal(text, &object); err != nil {
		t.Fatal(err)
	}
	machine, err := topology.FromSpec(object.Spec)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return machine
}

func (s *stand) storesLargeMachine(t *testing.T) {
	machine := grid(t, 2, 8, 32, 128)
	spec, err := json.Marshal(machine.Spec())
	if err != nil {
		t.Fatal(err)
	}
	if len(spec) > 4096 {
		t.Errorf("the spec of %d CPUs has %d bytes, want at most 4096", machine.Online.Size(), len(spec))
	}
	s.putTopology(t, topologyObject("large", machine))
	if got := s.storedTopology(t, "large"); got.Online != machine.Online || got.Hash() != machine.Hash() {
		t.Errorf("stored machine has CPUs %s and hash %s, want %s and %s", got.Online, got.Hash(), machine.Online, machine.Hash())
	}
}

// printsColumns requests a table, as kubectl get does.
func (s *stand) printsColumns(t *testing.T) {
	table := s.table(t, "large")
	var columns []string
	for _, column := range table.ColumnDefinitions {
		columns = append(columns, column.Name)
	}
	want := []string{"Name", "Sockets", "NUMA", "L3", "Cores", "CPUs", "Free", "Fragmentation", "Pinnable", "Age"}
	if diff := cmp.Diff(want, columns); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	got := fmt.Sprint(table.Rows[0].Cells[:len(want)-1]...)
	if want := fmt.Sprint("large", 2, 8, 32, 128, 256, 256, 0, "True"); got != want {
		t.Errorf("row %s, want %s", got, want)
	}
}

func (s *stand) table(t *testing.T, name string) *metav1.Table {
	t.Helper()
	text, err := s.client.Discovery().RESTClient().Get().
		AbsPath("/apis/berth.dev/v1alpha1/nodetopologies/"+name).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(t.Context()).Raw()
	if err != nil {
		t.Fatal(err)
	}
	table := &metav1.Table{}
	if err := json.Unmarshal(text, table); err != nil {
		t.Fatal(err)
	}
	if len(table.Rows) != 1 {
		t.Fatalf("%d rows, want 1: %s", len(table.Rows), text)
	}
	return table
}

// lie is one change that makes an object invalid.
type lie struct {
	name   string
	change func(*v1alpha1.NodeTopologySpec)
	want   string // A part of the server's answer.
}

func lies() []lie {
	type spec = v1alpha1.NodeTopologySpec
	tooMany := make([]v1alpha1.CPUList, 1025)
	for i := range tooMany {
		tooMany[i] = "0"
	}
	return []lie{
		{"no CPUs", func(s *spec) { s.Online = "" }, "online"},
		{"not a list", func(s *spec) { s.Online = "0-3;rm" }, "online"},
		{"a long list", func(s *spec) { s.Online = v1alpha1.CPUList(strings.Repeat("0,", 2048) + "0") }, "online"},
		{"a CPU of five digits", func(s *spec) { s.Cores[0] = "10000" }, "cores"},
		{"too many cores", func(s *spec) { s.Cores = tooMany }, "cores"},
		{"no cores", func(s *spec) { s.Cores = nil }, "cores"},
		{"no NUMA nodes", func(s *spec) { s.NUMANodes = nil }, "numaNodes"},
		{"a NUMA node twice", func(s *spec) { s.NUMANodes[1].ID = s.NUMANodes[0].ID }, "numaNodes"},
		{"too few distances", func(s *spec) { s.NUMANodes[1].Distances = s.NUMANodes[1].Distances[:1] }, "distance"},
		{"negative memory", func(s *spec) { s.NUMANodes[0].MemoryBytes = -1 }, "memoryBytes"},
		{"a negative socket", func(s *spec) { s.Sockets[0].ID = -1 }, "sockets"},
		{"an L3 twice", func(s *spec) { s.L3[1].ID = s.L3[0].ID }, "l3"},
		{"a short hash", func(s *spec) { s.Hash = "abc" }, "hash"},
	}
}

func (s *stand) refusesLies(t *testing.T) {
	machine := recorded(t, "vm-2s2n-smt")
	for _, lie := range lies() {
		t.Run(lie.name, func(t *testing.T) {
			object := topologyObject("liar", machine)
			object.Spec.NUMANodes = slices.Clone(object.Spec.NUMANodes)
			lie.change(&object.Spec)
			_, err := s.dynamic.Resource(nodeTopologies()).Create(t.Context(), toUnstructured(t, object), metav1.CreateOptions{})
			mustContain(t, err, "invalid", lie.want)
		})
	}
}

// dropsUnknownFields checks that the API server drops a field that the definition does not have.
func (s *stand) dropsUnknownFields(t *testing.T) {
	object := toUnstructured(t, topologyObject("extra", recorded(t, "vm-2s2n-smt")))
	if err := unstructured.SetNestedField(object.Object, "x", "spec", "surprise"); err != nil {
		t.Fatal(err)
	}
	made, err := s.dynamic.Resource(nodeTopologies()).Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, found, _ := unstructured.NestedString(made.Object, "spec", "surprise"); found {
		t.Error("an unknown field was stored")
	}
}
