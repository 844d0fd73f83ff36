package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestSealed(t *testing.T) {
	const v2 = "26 25 0:23 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw%s\n"
	for _, test := range []struct {
		name, mounts, own string
		sealed            bool
	}{
		{"a container", fmt.Sprintf(v2, ",nsdelegate"), "0::/\n", true},
		{"a service of the host", fmt.Sprintf(v2, ",nsdelegate"), "0::/system.slice/berth.service\n", false},
		{"no delegation", fmt.Sprintf(v2, ""), "0::/\n", false},
		{"v1", "31 23 0:28 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n", "4:cpuset:/\n0::/\n", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{
				"proc/self/mountinfo":                      test.mounts,
				"sys/fs/cgroup/cgroup.controllers":         "cpuset cpu\n",
				fmt.Sprintf("proc/%d/cgroup", os.Getpid()): test.own,
			} {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if sealed, err := openAt(t, dir).Sealed(); err != nil || sealed != test.sealed {
				t.Errorf("%t, %v; want %t", sealed, err, test.sealed)
			}
		})
	}
}
