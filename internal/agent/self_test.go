package agent

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/berth-project/berth/internal/arbiter"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/kernel"
	"github.com/berth-project/berth/internal/nri"
	"github.com/berth-project/berth/internal/tenants"
)

// affinity is where the calling thread may run.
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

// The agent takes its own group out of what the runtime is to write, and goes itself.
func TestSelfMakesRoom(t *testing.T) {
	all := affinity(t)
	one, _ := all.Max()
	if all.Size() < 2 {
		t.Skip("a machine with one CPU has no room to make; others have")
	}
	only := cpuset.Set{}.Add(one)
	c := &controller{node: new(node), self: self{sealed: true, group: "own"}}
	c.node.online = all
	t.Cleanup(func() {
		if err := kernel.Confine(all); err != nil {
			t.Error(err)
		}
	})
	want := func(group, id string) tenants.Want {
		return tenants.Want{Group: group, Wish: arbiter.Wish{ContainerID: id, CPUs: only}}
	}
	a := tenants.Answer{
		Changes: []tenants.Want{want("other", "o"), want("own", "s")},
		Reply:   nri.Reply{Updates: []nri.Change{{ContainerID: "o"}, {ContainerID: "s"}}},
	}
	if err := c.takeSelf(&a); err != nil {
		t.Fatal(err)
	}
	if len(a.Changes) != 1 || a.Changes[0].Group != "other" || len(a.Reply.Updates) != 1 || a.Reply.Updates[0].ContainerID != "o" {
		t.Errorf("left are %+v", a)
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
	if err := c.makeRoom(cpuset.Set{}); err != nil || affinity(t) != all {
		t.Errorf("back on %s, %v; want %s", affinity(t), err, all)
	}
}
