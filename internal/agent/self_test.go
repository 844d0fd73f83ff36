package agent

import (
	"fmt"
	"os"
	"testing"

	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/inventory"
	"github.com/berth-project/berth/internal/nri"
	"github.com/berth-project/berth/internal/place"
)

// The agent takes its own group out of what the runtime is to write, and goes itself.
func TestSelfMakesRoom(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.addGroup("other", "max 100000")
		m.addGroup("own", "max 100000")
		m.write("sys/fs/cgroup/own/cgroup.procs", fmt.Sprintf("%d\n", os.Getpid()))
		m.boot()
		m.end() // what follows does as the loop
		c := m.controls
		c.self.Sealed = true
		nowhere, _ := cpuset.Of(cpuset.Max - 1) // where the kernel lets no thread run
		want := func(group, id string) place.Desired {
			return place.Desired{Group: group, ContainerID: id, CPUs: nowhere}
		}
		a := inventory.Answer{
			Changes: []place.Desired{want("other", "o"), want("own", "s")},
			Reply:   nri.Reply{Updates: []nri.Change{{ContainerID: "o"}, {ContainerID: "s"}}},
		}
		if err := c.takeSelf(&a); err == nil || c.self.CPUs != nowhere {
			t.Errorf("the agent went nowhere: %v, to %s", err, c.self.CPUs)
		}
		if len(a.Changes) != 1 || a.Changes[0].Group != "other" || len(a.Reply.Updates) != 1 || a.Reply.Updates[0].ContainerID != "o" {
			t.Errorf("left are %+v", a)
		}
		if err := c.takeSelf(&a); err != nil || len(a.Changes) != 1 {
			t.Errorf("without a change of its own: %v, %+v", err, a)
		}
		if err := c.stop(); err != nil {
			t.Error(err)
		}
		m.closeJournal()
	})
}
