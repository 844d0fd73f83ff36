// Package recorded provides tests with the machines of testdata/machines, as topologies by name.
package recorded

import (
	"os"
	"path/filepath"
	"strings"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/linux/topology"
)

// deepest is the largest number of folders between a package with such tests and the module's own folder.
const deepest = 6

// Machines returns the recorded machines by name. It looks for testdata/machines above the caller's folder.
func Machines(t rapid.TB) map[string]*topology.Topology {
	t.Helper()
	const end = ".golden.json"
	var names []string
	var err error
	for up := "."; len(names) == 0 && err == nil && strings.Count(up, "..") <= deepest; up += "/.." {
		names, err = filepath.Glob(up + "/testdata/machines/*" + end)
	}
	if err != nil || len(names) < 10 {
		t.Fatalf("machines: %v, %v", names, err)
	}
	machines := map[string]*topology.Topology{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		top, err := topology.Decode(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		machines[strings.TrimSuffix(filepath.Base(name), end)] = top
	}
	return machines
}
