package hostwrite_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-project/berth/internal/engine/hostwrite"
	"github.com/berth-project/berth/internal/linux/hostfs"
)

func setup(t *testing.T) (root *hostfs.Root, d *hostfs.Dir, dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "g"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "g/knob"), []byte("a long old value\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	root, err := hostfs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	if d, err = root.Dir("g"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return root, d, dir
}

func TestExisting(t *testing.T) {
	_, d, dir := setup(t)
	if err := hostwrite.Existing(d, "knob", "50000 100000"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "g/knob"))
	if err != nil || string(got) != "50000 100000" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestNothingIsMade(t *testing.T) {
	_, d, dir := setup(t)
	err := hostwrite.Existing(d, "none", "1")
	if !errors.Is(err, fs.ErrNotExist) || errors.Is(err, hostfs.ErrGone) {
		t.Errorf("missing knob: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "g/none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the knob is there now: %v", err)
	}
	for _, part := range []string{`"1"`, filepath.Join(dir, "g/none"), "no such file"} {
		if err != nil && !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
}

func TestOutsideIsRefused(t *testing.T) {
	_, d, dir := setup(t)
	outside := filepath.Join(dir, "outside")
	if err := os.WriteFile(outside, []byte("keep"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../outside", filepath.Join(dir, "g/link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", ".", "..", "../outside", "sub/knob", "/knob"} {
		if err := hostwrite.Existing(d, name, "x"); !errors.Is(err, hostwrite.ErrBadName) {
			t.Errorf("name %q: %v", name, err)
		}
	}
	if err := hostwrite.Existing(d, "link", "x"); err == nil {
		t.Error("followed a link out of the directory")
	}
	if got, err := os.ReadFile(outside); err != nil || string(got) != "keep" {
		t.Errorf("outside: %q, %v", got, err)
	}
}

func TestKernelsAnswerIsKept(t *testing.T) {
	root, err := hostfs.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	d, err := root.Dir("dev")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	err = hostwrite.Existing(d, "full", "77")
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("write to a full device: %v", err)
	}
	for _, part := range []string{`"77"`, "/dev/full"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
}

func TestGone(t *testing.T) {
	_, d, dir := setup(t)
	if err := os.RemoveAll(filepath.Join(dir, "g")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "g"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "g/knob"), []byte("another's"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := hostwrite.Existing(d, "knob", "1"); !errors.Is(err, hostfs.ErrGone) {
		t.Errorf("a directory made again: %v", err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "g/knob")); err != nil || string(got) != "another's" {
		t.Errorf("the new directory's knob: %q, %v", got, err)
	}
}

func TestDirs(t *testing.T) {
	root, _, dir := setup(t)
	if err := hostwrite.MakeDir(root, "/g/new"); err != nil {
		t.Fatal(err)
	}
	if err := hostwrite.MakeDir(root, "g/new"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("made twice: %v", err)
	}
	if err := hostwrite.MakeDir(root, "none/new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a parent: %v", err)
	}
	if err := hostwrite.RemoveDir(root, "g/new"); err != nil {
		t.Error(err)
	}
	if err := hostwrite.RemoveDir(root, "g/new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed twice: %v", err)
	}
	if err := hostwrite.RemoveDir(root, "g"); err == nil {
		t.Error("removed a directory that holds files")
	}
	if err := hostwrite.RemoveDir(root, "g/knob"); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("removing a file: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "g/knob")); err != nil {
		t.Error(err)
	}
}
