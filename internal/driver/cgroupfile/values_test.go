package cgroupfile_test

import (
	"testing"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
)

// A kernel that divides the burst at a write to cpu.max leaves Berth's own
// value, or the original, in another guise.
func TestDividedBurst(t *testing.T) {
	e := journal.Entry{
		Target: cgroupfile.Target("a", cgroup.KnobBurst), Original: "60000 100000", Previous: "60000 100000", Intent: "90999 100000",
	}
	kinds := cgroupfile.Values()
	for v, want := range map[plan.Value]bool{
		"60 100000": true, "90 100000": true, "180 200000": false, "181 200000": true, "120 200000": true,
		"0 100000": false, "61 100000": false, "59 100000": false, "90 70000": false, "nonsense": false,
	} {
		if e.IsOurs(kinds, v) != want || e.IsOriginal(kinds, v) {
			t.Errorf("IsOurs(%q) = %v", v, !want)
		}
	}
	e.Target.Knob = string(cgroup.KnobMax)
	if e.IsOurs(kinds, "60 100000") {
		t.Error("a divided quota is nobody's but somebody's")
	}
}
