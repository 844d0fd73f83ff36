package place_test

import (
	"testing"

	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/node/observed"
)

// The memory nodes of a placement take effect where the memory is known to fit. Otherwise the container has all nodes,
// and its annotation says so.
func TestMemoryOfPlacement(t *testing.T) {
	tests := []struct {
		name      string
		requested int64 // by a pod beside it, in GiB
		huge      bool
		mems      string
	}{
		{"fits", 50, false, "0"},
		{"is not known to fit", 120, false, "0-1"},
		{"huge pages that the node does not have", 0, true, "0-1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n := place.New(two().facts(t))
			beside := plain("web", 1, app("nginx", 1))
			beside.ScheduledMemory = test.requested * gi
			n.Pods.Put(beside)
			p := placed(pod("redis", 2, app("redis", 2)), "redis", "1,9", "0")
			if test.huge {
				p.Containers[0].Huge.Put(gi, gi)
				p.ScheduledHuge = p.Containers[0].Huge
			}
			n.Pods.Put(p)
			a := create(t, n, "redis", "redis")
			if got := a.Own[0]; got.CPUs != set(t, "1,9") || got.Mems.String() != test.mems {
				t.Errorf("CPUs %s, mems %s, want 1,9 and %s", got.CPUs, got.Mems, test.mems)
			}
			written := ""
			for _, one := range n.Events() {
				if one.PodUID == "redis" && one.Annotation != nil {
					written = one.Annotation.Containers["redis"].Mems
				}
			}
			if want := map[bool]string{true: test.mems}[test.mems != "0"]; written != want {
				t.Errorf("mems %q are written back, want %q", written, want)
			}
		})
	}
}

// A running container keeps its memory nodes, even if its node no longer has room for them.
func TestMemoryOfRunningContainerStays(t *testing.T) {
	n := place.New(two().facts(t))
	beside := plain("web", 1, app("nginx", 1))
	beside.ScheduledMemory = 100 * gi
	n.Pods.Put(beside)
	n.Pods.Put(placed(pod("redis", 2, app("redis", 2)), "redis", "1,9", "0"))
	n.Pods.Observe(observed.Container{ID: "redis/redis", PodUID: "redis", Name: "redis", Phase: observed.Running, CPUs: set(t, "1,9"), Given: set(t, "1,9"), Pinned: true})
	for _, d := range n.Desired() {
		if d.Container == "redis" && d.Mems.String() != "0" {
			t.Errorf("mems %s", d.Mems)
		}
	}
}
