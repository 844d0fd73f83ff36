package pin

import (
	"fmt"
	"os"
	"testing"

	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/capability/place/assignment"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// The agent removes its own group from the answer to the runtime, and moves itself instead.
func TestSelfMakesRoom(t *testing.T) {
	t.Parallel()
	s := newNode(t, map[string]string{
		"sys/fs/cgroup/other/cgroup.procs": "",
		"sys/fs/cgroup/own/cgroup.procs":   fmt.Sprintf("%d\n", os.Getpid()),
	})
	nowhere, _ := cpuset.Of(cpuset.Max - 1) // the kernel lets no thread run there
	desired := func(group, id string) place.Desired {
		return place.Desired{Group: group, ContainerID: id, CPUs: nowhere}
	}
	a := assignment.Answer{
		Changes: []place.Desired{desired("other", "o"), desired("own", "s")},
		Reply:   nri.Reply{Updates: []nri.Change{{ContainerID: "o"}, {ContainerID: "s"}}},
	}
	if err := s.takeSelf(&a); err == nil || s.self.CPUs != nowhere {
		t.Errorf("the agent went nowhere: %v, to %s", err, s.self.CPUs)
	}
	if len(a.Changes) != 1 || a.Changes[0].Group != "other" || len(a.Reply.Updates) != 1 || a.Reply.Updates[0].ContainerID != "o" {
		t.Errorf("left are %+v", a)
	}
	if err := s.takeSelf(&a); err != nil || len(a.Changes) != 1 {
		t.Errorf("without a change of its own: %v, %+v", err, a)
	}
}
