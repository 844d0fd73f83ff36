package main

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/test/kernel/job"
)

// cmdline holds the parameters that the kernel was booted with.
const cmdline = "/proc/cmdline"

// mount is one line of an fstab.
type mount struct {
	fstype, dir, options string
	optional             bool // The kernel may lack it.
}

// base is mounted in every guest.
var base = []mount{
	{fstype: "devtmpfs", dir: "/dev"},
	{fstype: "tmpfs", dir: "/dev/shm"},
	{fstype: "proc", dir: "/proc"},
	{fstype: "sysfs", dir: "/sys"},
	{fstype: "tmpfs", dir: "/tmp"},
	{fstype: "tmpfs", dir: "/run"},
	{fstype: "debugfs", dir: "/sys/kernel/debug", optional: true},
	{fstype: "tracefs", dir: "/sys/kernel/tracing", optional: true},
	{fstype: "securityfs", dir: "/sys/kernel/security", optional: true},
}

// layouts are the ways in which hosts mount the controllers of CPUs and memory.
var layouts = map[string][]mount{
	// The unified hierarchy alone: every current distribution.
	"v2": {{fstype: "cgroup2", dir: "/sys/fs/cgroup"}},
	// Each controller in a separate hierarchy: a group may exist in one and be missing in another.
	"v1": {
		{fstype: "tmpfs", dir: "/sys/fs/cgroup"},
		{fstype: "cgroup", dir: "/sys/fs/cgroup/cpu", options: "cpu"},
		{fstype: "cgroup", dir: "/sys/fs/cgroup/cpuacct", options: "cpuacct"},
		{fstype: "cgroup", dir: "/sys/fs/cgroup/cpuset", options: "cpuset"},
		{fstype: "cgroup", dir: "/sys/fs/cgroup/memory", options: "memory"},
		{fstype: "cgroup", dir: "/sys/fs/cgroup/hugetlb", options: "hugetlb"},
	},
	// systemd's hybrid: cpu and cpuacct together on v1, the unified tree without them.
	"hybrid": {
		{fstype: "tmpfs", dir: "/sys/fs/cgroup"},
		{fstype: "cgroup2", dir: "/sys/fs/cgroup/unified"},
		{fstype: "cgroup", dir: "/sys/fs/cgroup/cpu,cpuacct", options: "cpu,cpuacct"},
		{fstype: "cgroup", dir: "/sys/fs/cgroup/cpuset", options: "cpuset"},
		{fstype: "cgroup", dir: "/sys/fs/cgroup/memory", options: "memory"},
		{fstype: "cgroup", dir: "/sys/fs/cgroup/hugetlb", options: "hugetlb"},
	},
}

// mountAll mounts the base, then the cgroup layout that the command line names.
func mountAll() error {
	if err := mountEach(base); err != nil {
		return err
	}
	line, err := os.ReadFile(cmdline)
	if err != nil {
		return err
	}
	name := job.Param(string(line), job.LayoutParam)
	mounts, known := layouts[name]
	if !known {
		return fmt.Errorf("%s=%q on the command line: no such layout", job.LayoutParam, name)
	}
	if err := mountEach(mounts); err != nil {
		return err
	}
	if name != "v2" {
		return nil
	}
	return delegate("/sys/fs/cgroup")
}

func mountEach(mounts []mount) error {
	for _, m := range mounts {
		// Directories under debugfs's parent and /sys/fs/cgroup exist already; MkdirAll accepts that.
		err := os.MkdirAll(m.dir, 0o755)
		if err == nil {
			err = unix.Mount("none", m.dir, m.fstype, 0, m.options)
		}
		if err != nil && !m.optional {
			return fmt.Errorf("mount %s on %s: %w", m.fstype, m.dir, err)
		}
	}
	return nil
}

// delegate enables the controllers for the children of the root, as systemd does on a booted host.
func delegate(root string) error {
	for _, controller := range []string{"cpu", "cpuset", "memory", "pids", "hugetlb"} {
		file := filepath.Join(root, "cgroup.subtree_control")
		if err := os.WriteFile(file, []byte("+"+controller), 0o644); err != nil {
			return fmt.Errorf("enable %s: %w", controller, err)
		}
	}
	return nil
}
