package mover

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/hostfs"
)

// TestUnseenProcesses: of a process in an unrelated pid namespace the kernel lists 0. A
// group of such is not one with nothing to move.
func TestUnseenProcesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"proc/self/mountinfo":                     "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
		"sys/fs/cgroup/cgroup.controllers":        "cpu",
		"sys/fs/cgroup/seen/cgroup.procs":         "7\n",
		"sys/fs/cgroup/seen/below/cgroup.procs":   "8\n",
		"sys/fs/cgroup/unseen/cgroup.procs":       "0\n0\n",
		"sys/fs/cgroup/partly/cgroup.procs":       "7\n",
		"sys/fs/cgroup/partly/below/cgroup.procs": "0\n",
	} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := hostfs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	host, err := cgroup.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	pids, err := groups{host}.Processes("seen")
	if diff := cmp.Diff([]int{7, 8}, pids); diff != "" || err != nil {
		t.Errorf("seen: %v (-want +got):\n%s", err, diff)
	}
	for _, group := range []string{"unseen", "partly"} {
		if pids, err := (groups{host}).Processes(group); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: %v, %v, want %v", group, pids, err, fs.ErrPermission)
		}
	}
}
