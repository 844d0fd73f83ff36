package statedir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A value is there as it was saved; a missing file leaves what was there, and a damaged one
// is named.
func TestValues(t *testing.T) {
	dir := t.TempDir()
	value := "before"
	if err := Load(dir, "value.json", &value); err != nil || value != "before" {
		t.Errorf("a missing file: %q, %v", value, err)
	}
	for _, saved := range []string{"one", "two"} {
		if err := Save(dir, "value.json", saved); err != nil {
			t.Fatal(err)
		}
		if err := Load(dir, "value.json", &value); err != nil || value != saved {
			t.Errorf("%q, %v, want %q", value, err, saved)
		}
	}
	path := filepath.Join(dir, "value.json")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Load(dir, "value.json", &value); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a damaged file: %v", err)
	}
	if err := Save(filepath.Join(dir, "gone"), "value.json", "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

// The identity is made once for a directory, and is another one in each.
func TestIdentity(t *testing.T) {
	dir := t.TempDir()
	first, err := Identity(dir)
	if err != nil || first == "" {
		t.Fatalf("identity %q: %v", first, err)
	}
	if again, err := Identity(dir); err != nil || again != first {
		t.Errorf("identity %q and then %q: %v", first, again, err)
	}
	if other, err := Identity(t.TempDir()); err != nil || other == first {
		t.Errorf("the identity of another directory is %q: %v", other, err)
	}
}
