package statedir

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-project/berth/test/disk"
)

// TestValues checks that Load returns what save wrote. A missing or empty file leaves the value unchanged, and the
// error of a damaged file names the file.
func TestValues(t *testing.T) {
	dir := t.TempDir()
	value := "before"
	if err := Load(dir, "value.json", &value); err != nil || value != "before" {
		t.Errorf("a missing file: %q, %v", value, err)
	}
	for _, saved := range []string{"one", "two"} {
		if err := save(dir, "value.json", saved); err != nil {
			t.Fatal(err)
		}
		if err := Load(dir, "value.json", &value); err != nil || value != saved {
			t.Errorf("%q, %v, want %q", value, err, saved)
		}
	}
	path := filepath.Join(dir, "value.json")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Load(dir, "value.json", &value); err != nil || value != "two" {
		t.Errorf("a file that a power cut emptied: %q, %v", value, err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Load(dir, "value.json", &value); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a damaged file: %v", err)
	}
	if err := save(filepath.Join(dir, "gone"), "value.json", "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

// TestReplace checks that save replaces a half-written file that a kill left behind, and that a full disk preserves the
// old file.
func TestReplace(t *testing.T) {
	dir := disk.Small(t)
	if err := os.WriteFile(filepath.Join(dir, "value.json.new"), []byte("half and mu"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := save(dir, "value.json", "old"); err != nil {
		t.Fatal(err)
	}
	alone := func(when string) {
		t.Helper()
		all, err := os.ReadDir(dir)
		names := slices.DeleteFunc(all, func(f os.DirEntry) bool { return !strings.HasPrefix(f.Name(), "value") })
		if info, statErr := os.Stat(filepath.Join(dir, "value.json")); err != nil || len(names) != 1 || statErr != nil || info.Mode() != ownerOnly {
			t.Errorf("%s: %v, %v, %v, %v", when, names, err, info, statErr)
		}
	}
	alone("replaced")
	disk.Fill(t, dir)
	if err := save(dir, "value.json", strings.Repeat("new", 1<<12)); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "value.json") {
		t.Errorf("on a full disk: %v", err)
	}
	alone("on a full disk")
	value := ""
	if err := Load(dir, "value.json", &value); err != nil || value != "old" {
		t.Errorf("%q, %v", value, err)
	}
}

// TestIdentity checks that a directory has one identity, and that two directories have different identities.
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
