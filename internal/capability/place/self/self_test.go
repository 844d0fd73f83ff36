package self

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/plain"
)

// affinity returns the CPUs that the calling thread may run on.
func affinity(t *testing.T) cpuset.Set {
	t.Helper()
	status, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		t.Error(err)
	}
	_, rest, _ := strings.Cut(string(status), "\nCpus_allowed_list:\t")
	list, _, _ := strings.Cut(rest, "\n")
	cpus, err := cpuset.Parse(list)
	if err != nil {
		t.Error(err)
	}
	return cpus
}

// TestThreadsShrink checks that all threads leave CPUs that other groups get, and that they come back.
func TestThreadsShrink(t *testing.T) {
	all := affinity(t)
	one, _ := all.Max()
	if all.Size() < 2 {
		t.Skip("a machine with one CPU has no room to make; others have")
	}
	only := cpuset.Set{}.Add(one)
	t.Cleanup(func() {
		if err := kernel.Confine(all); err != nil {
			t.Error(err)
		}
	})
	var s Self
	if err := s.Shrink(only); err != nil || affinity(t) != all {
		t.Errorf("never confined: on %s, %v; want %s", affinity(t), err, all)
	}
	s.CPUs = only
	if err := s.Shrink(all); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			if now := affinity(t); now != only {
				t.Errorf("a thread runs on %s, want %d", now, one)
			}
		})
	}
	wait.Wait()
	s.CPUs = cpuset.Set{}
	nowhere, _ := cpuset.Of(cpuset.Max - 1) // a CPU on which the kernel lets no thread run
	if err := s.Shrink(nowhere); err == nil {
		t.Error("back on a CPU that is not there")
	}
	if err := s.Shrink(all); err != nil || affinity(t) != all { // the next pass
		t.Errorf("back on %s, %v; want %s", affinity(t), err, all)
	}
}

// tree returns a v2 hierarchy of plain files, with one process in each group.
func tree(t *testing.T, procs map[string]int) *cgroup.Host {
	t.Helper()
	h := plain.WithGroups(t, "cpuset cpu")
	for group, pid := range procs {
		h.Write("sys/fs/cgroup/"+group+"/cgroup.procs", fmt.Sprintf("%d\n", pid))
		h.Write("sys/fs/cgroup/"+group+"/cgroup.controllers", "cpuset cpu\n")
	}
	return h.Cgroups()
}

// TestSelfIsOneGroup checks that only the group that the agent itself is in counts as its own. The kernel lets the
// agent write the groups above, and other processes in them must leave CPUs as well.
func TestSelfIsOneGroup(t *testing.T) {
	const own = "system.slice/docker-x.scope"
	host := tree(t, map[string]int{"system.slice": 0, own: os.Getpid(), "system.slice/y.service": 1})
	for _, sealed := range []bool{true, false} {
		s := Self{Host: host, Sealed: sealed}
		for _, group := range []string{"gone", "system.slice", "system.slice/y.service", own, "system.slice", own} {
			if is := s.Is(group); is != (sealed && group == own) {
				t.Errorf("sealed %t, %s is the agent's own: %t", sealed, group, is)
			}
		}
	}
}

// TestOtherGroupsAreBounded checks that the list of other groups stays bounded if the agent's own group is never
// reported.
func TestOtherGroupsAreBounded(t *testing.T) {
	s := Self{Host: tree(t, map[string]int{"a": 1}), Sealed: true}
	s.others = map[string]bool{}
	for i := range mostOthers {
		s.others[fmt.Sprint(i)] = true
	}
	if s.Is("a") || len(s.others) != 1 {
		t.Errorf("%d groups are remembered", len(s.others))
	}
}
