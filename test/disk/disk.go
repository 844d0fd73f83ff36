// Package disk provides tests with a file system that can be filled quickly.
package disk

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Small mounts a file system of 64 KiB until the test ends.
func Small(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a small tmpfs needs root; runs in the VM: make test")
	}
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

// Fill uses all the remaining space on the file system of dir, in a file that it returns.
func Fill(t *testing.T, dir string) (ballast string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err = io.Copy(f, io.LimitReader(zeros{}, 1<<20)); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("filling up: %v", err)
	}
	return f.Name()
}

// FillBut is Fill, but leaves space for so many pages.
func FillBut(t *testing.T, dir string, pages int) (ballast string) {
	t.Helper()
	ballast = Fill(t, dir)
	info, err := os.Stat(ballast)
	if err == nil {
		err = os.Truncate(ballast, info.Size()-int64(pages*os.Getpagesize()))
	}
	if err != nil {
		t.Fatal(err)
	}
	return ballast
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
