package tuner_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/tuner"
)

// smallDisk mounts a file system of 64 KiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("mounting a small tmpfs: %v; runs in the VM: make test", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestFullDisk: without room for the deadline and the originals nothing is written, a commit
// that cannot be recorded is none, and the way back needs no room.
func TestFullDisk(t *testing.T) {
	h := newHost(t)
	disk := smallDisk(t)
	h.state = filepath.Join(disk, "tune")
	before := h.files()
	fill := func() {
		if err := os.WriteFile(filepath.Join(disk, "ballast"), make([]byte, 1<<20), 0o600); err == nil {
			t.Fatal("a megabyte fits on the small disk")
		}
	}
	h.do(func(u *tuner.Tuner) {
		fill()
		if r, err := u.Apply(order(confirm, some())); !errors.Is(err, syscall.ENOSPC) || r.Writes != 0 {
			t.Errorf("%+v, %v", r, err)
		}
	})
	if d := cmp.Diff(before, h.files()); d != "" {
		t.Fatal(d)
	}
	must(t, os.Remove(filepath.Join(disk, "ballast")))
	h.do(func(u *tuner.Tuner) { _, err := u.Apply(order(confirm, some())); must(t, err) })
	h.do(func(u *tuner.Tuner) {
		fill()
		if err := u.Commit(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("commit: %v", err)
		}
	})
	if a, is, err := tuner.Load(h.state); !is || err != nil || a.Phase != tuner.Trial {
		t.Errorf("%+v, %v", a, err)
	}
	h.boottime += confirm
	h.do(func(u *tuner.Tuner) {
		for file, o := range outcomes(u.Rollback()) {
			if o != apply.OutcomeRestored {
				t.Errorf("%s: %s", file, o)
			}
		}
	})
	if d := cmp.Diff(before, h.files()); d != "" {
		t.Error(d)
	}
	if _, is, _ := tuner.Load(h.state); is {
		t.Error("a record is left")
	}
}
