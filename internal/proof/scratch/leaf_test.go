package scratch_test

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/proof/scratch"
)

func TestLeaf(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to make cgroups; runs in the VM: make test")
	}
	root, err := hostfs.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	host, err := cgroup.Open(root)
	if err != nil {
		t.Skipf("needs cgroups (%v); runs in the VM: make test", err)
	}
	if _, err := scratch.Leaf(host, "", "other"); !errors.Is(err, scratch.ErrBadName) {
		t.Errorf("a leaf with somebody else's name: %v", err)
	}
	leaf, err := scratch.Leaf(host, "", scratch.Name("test-leaf"))
	if errors.Is(err, fs.ErrPermission) {
		t.Skipf("needs writable cgroups (%v); runs in the VM: make test", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := scratch.Leaf(host, "", scratch.Name("test-leaf")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a leaf that is there already: %v", err)
	}
	if err := leaf.Close(); err != nil {
		t.Error(err)
	}
	if _, err := host.Group(leaf.Path()); !errors.Is(err, cgroup.ErrNoGroup) {
		t.Errorf("a closed leaf is still there: %v", err)
	}
}
