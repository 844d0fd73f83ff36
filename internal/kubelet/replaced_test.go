package kubelet

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// TestReplacedFile reads files that are open and have no name any more, as a file is in a
// container once the host has another one in its place.
func TestReplacedFile(t *testing.T) {
	dir := t.TempDir()
	detached := func(text string) string {
		t.Helper()
		name := filepath.Join(t.TempDir(), "file")
		write(t, name, text)
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = file.Close() })
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		return "/proc/self/fd/" + strconv.Itoa(int(file.Fd()))
	}
	if _, err := ReadConfig(detached("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n")); !errors.Is(err, ErrReplaced) {
		t.Errorf("configuration: %v", err)
	}
	if err := os.Symlink(detached(`{"policyName":"none"}`), filepath.Join(dir, stateFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadState(dir); !errors.Is(err, ErrReplaced) {
		t.Errorf("state: %v", err)
	}
}
