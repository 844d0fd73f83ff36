package pin

import (
	"testing"

	"github.com/berth-project/berth/internal/capability"
)

// Where the machine cannot be read nothing is pinned, and the metric says so.
func TestPinnableWithoutTopology(t *testing.T) {
	s := newNode(t, map[string]string{})
	shown := map[string]float64{}
	s.Measure(func(m capability.Sample) {
		if m.Metric == "node_pinnable" {
			shown[m.Labels[0]] = m.Value
		}
	})
	if s.machine.Topology != nil || len(shown) != 1 {
		t.Fatalf("topology %v, shown %v", s.machine.Topology, shown)
	}
	for reason, value := range shown {
		if reason == "" || value != 0 {
			t.Errorf("%g because of %q", value, reason)
		}
	}
}
