package hostfs_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-project/berth/internal/linux/hostfs"
)

func TestLock(t *testing.T) {
	root, dir := tree(t, map[string]string{"sys/group/file": "1\n", "sys/other/file": "1\n", "sys/removed/file": "1\n"})
	open := func(name string) *hostfs.Dir {
		t.Helper()
		d, err := root.Dir(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		return d
	}
	free := func(d *hostfs.Dir) {
		t.Helper()
		if err := d.Lock(); err != nil {
			t.Errorf("a free directory: %v", err)
		}
	}
	busy := func(d *hostfs.Dir) {
		t.Helper()
		if err := d.Lock(); !errors.Is(err, hostfs.ErrBusy) {
			t.Errorf("a locked directory: %v, want ErrBusy", err)
		}
	}
	first, second := open("sys/group"), open("sys/group")
	if err := first.Unlock(); err != nil {
		t.Errorf("unlock without a lock: %v", err)
	}
	free(first)
	free(first)
	free(open("sys/other"))
	busy(second)
	if err := first.Unlock(); err != nil {
		t.Error(err)
	}
	free(second)
	busy(first)
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	free(first)

	removed := open("sys/removed")
	if err := os.RemoveAll(filepath.Join(dir, "sys/removed")); err != nil {
		t.Fatal(err)
	}
	if err := removed.Lock(); errors.Is(err, hostfs.ErrBusy) {
		t.Errorf("a removed directory: %v", err)
	}
}
