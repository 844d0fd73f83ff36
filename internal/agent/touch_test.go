package agent

import (
	"testing"
	"time"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/node/nri"
)

// After the runtime's events about a container, the agent reads the groups of its pod in the next pass, not only at
// their next turn.
func TestUpdatedGroupsAreLookedAt(t *testing.T) {
	inPod(t, func(t *testing.T, m *machine) {
		m.boot()
		c := m.controls
		pass := func(at time.Duration) int {
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, group := range c.built.pins.Decide(&capability.Node{}).Touched {
				c.reconciler.Touch(group)
			}
			report, _ := c.reconciler.Pass(time.Hour + at)
			return report.Writes
		}
		c.mu.Lock()
		c.reconciler.Want(place.DesiredPod{Group: podPath, NoQuota: true, Serves: "ns/pod", Why: "pinned"}.Settings())
		c.mu.Unlock()
		if n := pass(0); n != 1 {
			t.Fatalf("%d writes, want 1", n)
		}
		m.write("sys/fs/cgroup/"+podPath+"/cpu.max", "150000 100000\n") // by the kubelet
		if n := pass(time.Second); n != 0 {
			t.Errorf("%d writes to a settled group", n)
		}
		for i, kind := range []nri.Kind{nri.PostUpdate, nri.Update, nri.Start, nri.PostStart} {
			m.write("sys/fs/cgroup/"+podPath+"/cpu.max", "150000 100000\n")
			e := nri.Event{Kind: kind, Pod: nri.Pod{ID: "p", UID: "u", CgroupParent: podPath}}
			if _, err := c.answer(e, true); err != nil {
				t.Fatal(err)
			}
			if n := pass(time.Duration(i+1) * 10 * time.Second); n != 1 {
				t.Errorf("%s: %d writes, want 1", kind, n)
			}
		}
	})
}
