package cgroup_test

import "testing"

// TestInitramfsHidesNothing reads the mounts of a machine that still runs from its initramfs, where the root mount is
// its own parent.
func TestInitramfsHidesNothing(t *testing.T) {
	const mounts = `1 1 0:2 / / rw - rootfs none rw
22 1 0:21 / /sys rw - sysfs none rw
30 22 0:24 / /sys/fs/cgroup rw - cgroup2 none rw
`
	host, err := open(t, mounts)
	if err != nil {
		t.Fatal(err)
	}
	if layout := host.Layout(); layout != "v2" {
		t.Errorf("Layout() = %q", layout)
	}
}
