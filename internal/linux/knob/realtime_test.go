package knob_test

import (
	"testing"

	"github.com/berth-project/berth/internal/linux/knob"
)

// TestPhaseOfASysctl checks that a file is written in the same phase of an apply under each of its names.
func TestPhaseOfASysctl(t *testing.T) {
	for name, want := range map[string]knob.Phase{
		"rt.runtime": knob.RealTime, "sysctl.kernel.sched_rt_runtime_us": knob.RealTime,
		"sysctl.kernel.sched_rt_period_us": knob.RealTime, "sysctl.vm.swappiness": knob.Plain,
	} {
		k, known := knob.Lookup(name)
		if !known || k.Phase != want {
			t.Errorf("%s: phase %d, known %v, want %d", name, k.Phase, known, want)
		}
		if at := knob.PhaseAt(k.Places[0].File); at != want {
			t.Errorf("%s: phase %d, want %d", k.Places[0].File, at, want)
		}
	}
}
