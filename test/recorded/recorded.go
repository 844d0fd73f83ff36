// Package recorded provides tests with the machines of testdata/machines, as topologies by name.
package recorded

import (
	"os"
	"path/filepath"
	"strings"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/topology"
)

// Machines returns the recorded machines by name. The caller must be a test of a package directly below internal,
// because the path is relative to its directory.
func Machines(t rapid.TB) map[string]*topology.Topology {
	t.Helper()
	const end = ".golden.json"
	names, err := filepath.Glob("../../testdata/machines/*" + end)
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
