package boot_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/test/disk"
)

// TestFullBoot: without room for the new file the old one stands, and nothing is left beside it.
func TestFullBoot(t *testing.T) {
	small := disk.Small(t)
	m := newMachine(t)
	m.write(entry, "options ro\n", 0o644)
	loader := filepath.Join(m.dir, "boot/loader")
	must(t, os.RemoveAll(loader))
	must(t, os.MkdirAll(loader, 0o755))
	must(t, syscall.Mount(small, loader, "", syscall.MS_BIND, ""))
	t.Cleanup(func() { must(t, syscall.Unmount(loader, 0)) })
	m.write(entry, "options ro\n", 0o644)
	disk.Fill(t, small)
	if err := m.apply(changed("options ro\n")); !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
	if all, err := os.ReadDir(filepath.Join(m.dir, filepath.Dir(entry))); err != nil || len(all) != 1 || m.read(entry) != "options ro\n" {
		t.Errorf("%v, %v, %q", all, err, m.read(entry))
	}
	if o := m.undo(); o != apply.OutcomeAlready {
		t.Error(o)
	}
}
