package schedule

import (
	"strings"
	"testing"
)

// An unknown field of a later Koordinator does not make the pod ordinary. The pod gets its CPUs by the known fields,
// and one event names the unknown field.
func TestUnknownFieldOfForeignKey(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		pod := c.pod("a", 4, annotated(resourceSpec, `{"preferredCPUBindPolicy":"SpreadByPCPUs","numaAllocateStrategy":"MostAllocated"}`))
		if cpus := c.placed(pod); cpus.Size() != 4 || cpus.Contains(0) && cpus.Contains(16) {
			t.Errorf("CPUs %s, want 4 on cores of their own", cpus)
		}
		select {
		case event := <-c.handle.recorder.Events:
			if !strings.HasPrefix(event, "Warning InvalidPolicy ") || !strings.Contains(event, "numaAllocateStrategy") ||
				strings.Contains(event, "no CPUs") {
				t.Errorf("event %s", event)
			}
		default:
			t.Error("no event")
		}
	})
}
