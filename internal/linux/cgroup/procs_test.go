package cgroup_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/engine/hostwrite"
	"github.com/berth-project/berth/internal/linux/cgroup"
)

// TestOwnProcs checks that a process belongs to one group, and appears below the groups above it.
func TestOwnProcs(t *testing.T) {
	host := written(t, map[string]string{
		"proc/self/mountinfo":                             "26 25 0:23 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
		"sys/fs/cgroup/cgroup.controllers":                "cpuset cpu\n",
		"sys/fs/cgroup/system.slice/cgroup.procs":         "",
		"sys/fs/cgroup/system.slice/x.scope/cgroup.procs": "0\n42\n7\n42\n",
		"sys/fs/cgroup/torn/cgroup.procs":                 "4x\n",
	})
	read := func(path string) (own, all []int, err error) {
		t.Helper()
		g, err := host.Group(path)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		own, err = g.OwnProcs()
		all, allErr := g.Procs()
		return own, all, errors.Join(err, allErr)
	}
	for path, want := range map[string][]int{"system.slice": nil, "system.slice/x.scope": {7, 42}} {
		own, all, err := read(path)
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want, own); diff != "" {
			t.Errorf("own of %s (-want +got):\n%s", path, diff)
		}
		if diff := cmp.Diff([]int{7, 42}, all); diff != "" {
			t.Errorf("all of %s (-want +got):\n%s", path, diff)
		}
	}
	if _, _, err := read("torn"); !errors.Is(err, cgroup.ErrMalformed) {
		t.Errorf("a torn list: %v", err)
	}
}

// TestThreads checks that the threads of a group are its own and those of all groups below it, including threads
// without an id here, on either version.
func TestThreads(t *testing.T) {
	for name, c := range map[string]struct{ mounts, file string }{
		"v2": {"26 25 0:23 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "cgroup.threads"},
		"v1": {"26 25 0:23 / /sys/fs/cgroup rw - cgroup cgroup rw,cpu,cpuset\n", "tasks"},
	} {
		host := written(t, map[string]string{
			"proc/self/mountinfo":              c.mounts,
			"sys/fs/cgroup/cgroup.controllers": "cpuset cpu\n",
			"sys/fs/cgroup/app/" + c.file:      "7\n8\n",
			"sys/fs/cgroup/app/a/b/" + c.file:  "0\n0\n9\n",
			"sys/fs/cgroup/app/a/" + c.file:    "",
			"sys/fs/cgroup/torn/" + c.file:     "4x\n",
		})
		for path, want := range map[string]int{"app": 5, "app/a": 3, "torn": 0} {
			g, err := host.Group(path)
			if err != nil {
				t.Fatal(err)
			}
			n, err := host.Threads(g)
			if n != want || (err == nil) == (path == "torn") || err != nil && !errors.Is(err, cgroup.ErrMalformed) {
				t.Errorf("%s: %s has %d threads, want %d: %v", name, path, n, want, err)
			}
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// A threaded group has no processes of its own, and the kernel refuses to list them.
func (l *live) threaded() {
	sub, err := l.group.Sub("sub")
	l.must(err)
	if l.version == 2 {
		dir, err := sub.Handle().Dir(cgroup.CPU)
		l.must(err)
		l.must(hostwrite.Existing(dir, "cgroup.type", "threaded"))
	}
	for what, read := range map[string]func() ([]int, error){"OwnProcs": sub.Handle().OwnProcs, "Procs": sub.Handle().Procs} {
		if pids, err := read(); err != nil || len(pids) > 0 {
			l.Errorf("%s of a threaded group: %v, %v", what, pids, err)
		}
	}
}
