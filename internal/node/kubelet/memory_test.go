package kubelet

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// TestMemory checks that memory which the memory manager assigned is known by pod, NUMA nodes and page size. If the
// kubelet does not answer, the knowledge stays.
func TestMemory(t *testing.T) {
	const gi = 1 << 30
	dir := t.TempDir()
	source := Source{Dir: dir}
	if _, err := source.Memory(t.Context()); !errors.Is(err, ErrNoState) {
		t.Errorf("no socket: %v", err)
	}
	block := func(kind string, size uint64, nodes ...int64) *podresources.ContainerMemory {
		return &podresources.ContainerMemory{MemoryType: kind, Size: size, Topology: at(nodes...)}
	}
	all := &lister{pods: []*podresources.PodResources{
		{Namespace: "shop", Name: "wide", Containers: []*podresources.ContainerResources{
			{Memory: []*podresources.ContainerMemory{block("memory", 60*gi, 0, 1)}}, {},
		}},
		{Namespace: "shop", Name: "db", Containers: []*podresources.ContainerResources{
			{Memory: []*podresources.ContainerMemory{block("hugepages-1Gi", 4*gi, 1), block("memory", gi, 1), block("hugepages-", gi, 0), block("swap", gi, 0), block("hugepages-1", gi, 0), block("memory", gi)}},
		}},
		{Namespace: "shop", Name: "none", Containers: []*podresources.ContainerResources{{}}},
	}}
	all.serve(t, dir)
	policy := func(cpu, memory string) {
		t.Helper()
		for name, text := range map[string]string{stateFile: `{"policyName":"` + cpu + `"}`, memoryStateFile: `{"policyName":"` + memory + `"}`} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	read := func() Reading {
		t.Helper()
		r := source.Read(t.Context())
		if r.MemoryErr != nil {
			t.Error(r.MemoryErr)
		}
		return r
	}
	policy("none", "None")
	if r := read(); r.Memory != nil {
		t.Errorf("without the manager there is %v", r.Memory)
	}
	policy("none", "Static")
	both, second := cpuset.Set{}.Add(0).Add(1), cpuset.Set{}.Add(1)
	want := []Memory{{"shop/db", second, 0, gi}, {"shop/db", second, gi, 4 * gi}, {"shop/wide", both, 0, 60 * gi}}
	r := read()
	if !slices.Equal(r.Memory, want) {
		t.Errorf("%v, want %v", r.Memory, want)
	}
	if err := os.Remove(filepath.Join(dir, stateFile)); err != nil {
		t.Fatal(err)
	}
	silent := source.Read(t.Context())
	var k Knowledge
	if silent.MemoryErr == nil || !k.TakeMemory(r) || k.TakeMemory(r) || k.TakeMemory(silent) || !slices.Equal(k.Memory, want) {
		t.Errorf("known are %v", k.Memory)
	}
	for range keepGone - 1 {
		if k.TakeMemory(Reading{}) || !slices.Equal(k.Memory, want) {
			t.Fatalf("of a kubelet that lists nothing yet %v are known", k.Memory)
		}
	}
	if !k.TakeMemory(Reading{}) || k.Memory != nil {
		t.Errorf("of a kubelet that gives none %v are known", k.Memory)
	}
}
