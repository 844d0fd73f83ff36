package knob_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-project/berth/internal/linux/topology"
)

// kernelsDir contains one recorded tree per kernel.
const kernelsDir = "../../../testdata/kernels/"

// kernels returns the names of the recorded trees, such as "6.12".
func kernels(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(kernelsDir + "*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d recordings, %v", kernelsDir, len(files), err)
	}
	names := make([]string, 0, len(files))
	for _, file := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(file), ".txtar"))
	}
	return names
}

// kernel opens one recorded tree.
func kernel(t *testing.T, name string) *topology.Recording {
	t.Helper()
	text, err := os.ReadFile(kernelsDir + name + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	recording, err := topology.ParseRecording(text)
	if err != nil {
		t.Fatal(err)
	}
	return recording
}
