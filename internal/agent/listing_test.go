package agent

import (
	"testing"

	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// While NRI is away the agent asks the runtime over CRI, which does not report recorded CPU sets. Another owner that a
// record has revealed remains an obstacle until its container is gone.
func TestListKeepsTheOtherOwner(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.boot()
		m.end()
		_, event := m.overtaken("podx/c")
		theirs := cpuset.Set{}.Add(0).Add(3)
		m.write("sys/fs/cgroup/podx/c/cpuset.cpus.effective", theirs.String()+"\n")
		e := event(nri.Start, "x", "podx/c")
		e.Container.Resources.CPUs = theirs
		m.answers(e)
		m.witnesses(event)
		list := nri.Event{
			Kind: nri.Synchronize,
			Pods: []nri.Pod{
				{ID: "box-x", UID: "x", Namespace: "ns", Name: "x", CgroupParent: "podx", CgroupPath: "podx/box"},
				{ID: "box-v", UID: "v", Namespace: "kube-system", Name: "v", CgroupParent: "podv"},
				{ID: "box-w", UID: "w", Namespace: "kube-system", Name: "w", CgroupParent: "podw"},
			},
			Containers: []nri.Container{
				{ID: "c-x", PodID: "box-x", Name: "main", State: nri.Running, CgroupPath: "podx/c", Unrecorded: true},
				{ID: "c-v", PodID: "box-v", Name: "main", State: nri.Running, CgroupPath: "podv/c", Unrecorded: true},
				{ID: "c-w", PodID: "box-w", Name: "main", State: nri.Running, CgroupPath: "podw/c", Unrecorded: true},
			},
		}
		for range 2 {
			if o := m.controls.inventory.Obstacle(); o.Reason != observed.ForeignCPUSet {
				t.Errorf("obstacle %+v", o)
			}
			m.controls.takeListing(list, nil, nil)
		}
		m.controls.takeListing(nri.Event{Kind: nri.Synchronize}, nil, nil)
		if o := m.controls.inventory.Obstacle(); o != (observed.Obstacle{}) {
			t.Errorf("obstacle %+v when it is gone", o)
		}
		if err := m.controls.stop(); err != nil {
			t.Error(err)
		}
		m.closeJournal()
	})
}
