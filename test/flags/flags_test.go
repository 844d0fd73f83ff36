package flags

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestCompiling reads the flags of Makefiles from a directory below them, and those of this source tree.
func TestCompiling(t *testing.T) {
	for name, test := range map[string]struct {
		makefile string
		want     []string // nil for an error
	}{
		"flags":    {"all:\n" + begin + "-trimpath -tags=a,b)\n\tgo build\n", []string{"-trimpath", "-tags=a,b"}},
		"no flags": {"all:\n\tgo build\n", nil},
	} {
		dir := t.TempDir()
		below := filepath.Join(dir, "a", "b")
		if err := os.MkdirAll(below, 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "Makefile"), []byte(test.makefile), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := Compiling(below); !slices.Equal(got, test.want) || (err != nil) != (test.want == nil) {
			t.Errorf("%s: %q, %v, want %q", name, got, err, test.want)
		}
	}
	if got, err := Compiling("."); err != nil || !slices.Contains(got, "-trimpath") {
		t.Errorf("of this source tree: %q, %v", got, err)
	}
}
