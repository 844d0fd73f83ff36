package kubelet

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// TestReplacedFile reads open files that no longer have a name, like a file in a container once the host has replaced
// it.
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

// TestReplacedMemoryState checks that a memory manager with the policy Static may replace its state with every pod,
// because only the policy matters. A manager that had the policy None has another policy by then.
func TestReplacedMemoryState(t *testing.T) {
	for policy, replaced := range map[string]bool{"Static": false, "None": true} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, stateFile), `{"policyName":"none"}`)
		name := filepath.Join(dir, memoryStateFile)
		write(t, name, `{"policyName":"`+policy+`"}`)
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if err := errors.Join(os.Remove(name), os.Symlink("/proc/self/fd/"+strconv.Itoa(int(file.Fd())), name)); err != nil {
			t.Fatal(err)
		}
		state, err := ReadState(dir)
		if errors.Is(err, ErrReplaced) != replaced || !replaced && (err != nil || state.MemoryPolicy != policy) {
			t.Errorf("%s: %+v, %v", policy, state, err)
		}
	}
}
