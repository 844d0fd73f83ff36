package cgroup_test

import (
	"errors"
	"testing"

	"github.com/berth-project/berth/internal/linux/cgroup"
)

// A claim excludes claims of every other handle, and nothing else.
func (l *live) claim() { claims(l.T, l.host, l.name) }

func TestClaimOfPlainDirectory(t *testing.T) {
	host := written(t, map[string]string{
		"proc/self/mountinfo":                "31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n",
		"sys/fs/cgroup/cgroup.controllers":   "cpuset cpu\n",
		"sys/fs/cgroup/a/cpu.max":            "max 100000\n",
		"sys/fs/cgroup/a/cgroup.controllers": "cpuset cpu\n",
	})
	claims(t, host, "a")
}

func claims(t *testing.T, host *cgroup.Host, path string) {
	t.Helper()
	open := func() *cgroup.Group {
		g, err := host.Group(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = g.Close() })
		return g
	}
	first, second := open(), open()
	for range 2 {
		if err := first.Claim(); err != nil {
			t.Fatalf("the first claim: %v", err)
		}
	}
	if err := second.Claim(); !errors.Is(err, cgroup.ErrClaimed) {
		t.Errorf("the second claim: %v, want ErrClaimed", err)
	}
	if _, err := second.Read(cgroup.KnobMax); err != nil {
		t.Errorf("reading a group that is claimed: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if err := second.Claim(); err != nil {
		t.Errorf("after the first handle is closed: %v", err)
	}
}
