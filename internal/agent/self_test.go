package agent

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/inventory"
	"github.com/berth-project/berth/internal/kernel"
	"github.com/berth-project/berth/internal/nri"
	"github.com/berth-project/berth/internal/place"
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
	c := &controller{quotas: quotas{node: new(node)}, self: self{sealed: true, group: "own"}}
	c.node.online = all
	t.Cleanup(func() {
		if err := kernel.Confine(all); err != nil {
			t.Error(err)
		}
	})
	want := func(group, id string) inventory.Desired {
		return inventory.Desired{Group: group, Desired: place.Desired{ContainerID: id, CPUs: only}}
	}
	a := inventory.Answer{
		Changes: []inventory.Desired{want("other", "o"), want("own", "s")},
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
	c.node.online, _ = cpuset.Of(cpuset.Max - 1) // where the kernel lets no thread run
	if err := c.makeRoom(cpuset.Set{}); err == nil {
		t.Error("back on a CPU that is not there")
	}
	c.node.online = all // the next pass
	if err := c.makeRoom(cpuset.Set{}); err != nil || affinity(t) != all {
		t.Errorf("back on %s, %v; want %s", affinity(t), err, all)
	}
}

// The kernel keeps the agent from writing the one group that it is in, and not those
// above: others in them have to leave CPUs as well.
func TestSelfIsOneGroup(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		const own = "system.slice/docker-x.scope"
		for _, group := range []string{"system.slice", own, "system.slice/y.service"} {
			m.addGroup(group, "max 100000")
		}
		m.write("sys/fs/cgroup/"+own+"/cgroup.procs", fmt.Sprintf("%d\n", os.Getpid()))
		m.boot()
		c := m.controls
		c.mu.Lock()
		defer c.mu.Unlock()
		c.self.sealed = true
		for _, group := range []string{"system.slice", "system.slice/y.service", own, "system.slice"} {
			if is := c.isSelf(group); is != (group == own) {
				t.Errorf("%s is the agent's own: %t", group, is)
			}
		}
	})
}
