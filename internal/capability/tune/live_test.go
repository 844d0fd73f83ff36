package tune_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/internal/linux/topology"
)

// TestLiveSeed checks that the plan of hpc-sched is right about the running kernel. The test lists what a kernel of
// this version has, and does not probe it.
func TestLiveSeed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("debugfs needs root; runs in the VM: make test")
	}
	if _, err := os.ReadFile("/sys/kernel/debug/sched/nr_migrate"); err != nil {
		t.Skipf("the kernel closes debugfs here, runs in the VM: make test: %v", err)
	}
	root, err := hostfs.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Fatal(err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(string(release), "%d.%d", &major, &minor); err != nil {
		t.Fatal(err)
	}
	m, err := topology.Discover(root.FS())
	if err != nil {
		t.Fatal(err)
	}
	rightLines(t, knob.Open(root.FS()), m, gone(major, minor))
}
