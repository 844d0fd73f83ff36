package hardware

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-project/berth/internal/linux/hostfs"
)

// CPUs that come and go are seen at the next reading, through files that stay open.
func TestCPUs(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(dir, cpuDir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, cpuDir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := hostfs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	var cpus CPUs
	if err := cpus.Read(root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for _, step := range []struct{ online, isolated string }{{"0-3", ""}, {"0-3", "2-3"}, {"0-1", "2-3"}, {"0-7", ""}} {
		write(onlineFile, step.online+"\n")
		if step.isolated != "" || cpus.isolKept != nil {
			write(isolatedFile, step.isolated+"\n")
		}
		if err := cpus.Read(root); err != nil || cpus.Online != set(t, step.online) || cpus.Isolated != set(t, step.isolated) {
			t.Errorf("%s online, %s isolated, %v; want %+v", cpus.Online, cpus.Isolated, err, step)
		}
	}
	write(onlineFile, "damaged\n")
	if err := cpus.Read(root); err == nil || cpus.Online != set(t, "0-7") {
		t.Errorf("damaged: %s, %v", cpus.Online, err)
	}
}
