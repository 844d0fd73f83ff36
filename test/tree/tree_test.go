package tree

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestRoot(t *testing.T) {
	got, err := Root()
	if want, wrong := filepath.Abs("../.."); err != nil || wrong != nil || got != want {
		t.Errorf("%q, want %q: %v, %v", got, want, err, wrong)
	}
}

func TestAbove(t *testing.T) {
	dir := t.TempDir()
	below := filepath.Join(dir, "a", "b")
	if err := os.MkdirAll(below, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a", "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(below, "a"), nil, 0o600); err != nil { // It is a directory above.
		t.Fatal(err)
	}
	for file, want := range map[string]string{"f": filepath.Join(dir, "a"), "a/f": dir} {
		if got, err := Above(below, file); err != nil || got != want {
			t.Errorf("%s: %q, want %q: %v", file, got, want, err)
		}
	}
	if got, err := Above(below, "absent"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%q: %v", got, err)
	}
}
