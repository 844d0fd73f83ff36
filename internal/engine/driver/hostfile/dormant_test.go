package hostfile

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"

	"github.com/berth-project/berth/internal/engine/apply"
)

// TestDormant checks that EBUSY of a frequency policy means that its CPUs are offline, not that the file is gone. For
// any other file, EBUSY is a refusal.
func TestDormant(t *testing.T) {
	t.Parallel()
	busy := &fs.PathError{Op: "read", Path: "f", Err: syscall.EBUSY}
	for file, want := range map[string]error{
		"/sys/devices/system/cpu/cpufreq/policy12/scaling_governor":             apply.ErrNotInForce,
		"/sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference": apply.ErrNotInForce,
		"/sys/devices/system/cpu/cpufreq/boost":                                 apply.ErrRefused,
		"/sys/devices/system/cpu/cpufreq/policy0/ondemand/up_threshold":         apply.ErrRefused,
		"/sys/devices/system/cpu/cpu3/power/pm_qos_resume_latency_us":           apply.ErrRefused,
		"/sys/devices/virtual/workqueue/cpumask":                                apply.ErrRefused,
	} {
		at, err := Target(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := read(at, busy); !errors.Is(err, want) || !errors.Is(err, syscall.EBUSY) || errors.Is(err, apply.ErrRefused) == errors.Is(err, apply.ErrNotInForce) {
			t.Errorf("%s: %v, want %v", file, err, want)
		}
	}
}
