package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/test/kernel/job"
)

// guestProgram returns a function that runs the program with a stateDir of its own, checks the exit code and returns the
// output. It skips a test outside the tests' virtual machine: the test changes the whole host.
func guestProgram(t *testing.T) (dir string, run func(code int, args ...string) string) {
	t.Helper()
	guest, err := job.Guest()
	if err != nil {
		t.Fatal(err)
	}
	if !guest {
		t.Skip("changes the whole host; runs in the VM: make verify-kernels")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	write(t, dir, "agent.yaml", "workloadDir: "+dir+"\nstateDir: "+dir+"\n")
	return dir, func(code int, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), exe) // An apply makes its process real-time.
		cmd.Args = append(append([]string{"berth"}, args...), "--config", filepath.Join(dir, "agent.yaml"))
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) || cmd.ProcessState.ExitCode() != code {
			t.Fatalf("%v: %v, want exit code %d: %s%s", args, err, code, out, errs.String())
		}
		return string(out)
	}
}

// verifiedRows returns the settings of berth tune verify.
func verifiedRows(t *testing.T, run func(int, ...string) string) []tune.Verified {
	t.Helper()
	var v struct{ Settings []tune.Verified }
	if err := json.Unmarshal([]byte(run(0, "tune", "verify", "-o", "json")), &v); err != nil {
		t.Fatal(err)
	}
	return v.Settings
}

// TestLiveSeedApplied: a kernel that has all sysctls of hpc-sched (5.12 and older) accepts the profile as it is printed,
// and a rollback restores every byte. Any other kernel is refused, and nothing changes.
func TestLiveSeedApplied(t *testing.T) {
	_, run := guestProgram(t)
	const sysctls = "/proc/sys/kernel/sched_"
	printed := map[string]string{
		"latency_ns": "4000000", "min_granularity_ns": "1000000", "wakeup_granularity_ns": "250000",
		"migration_cost_ns": "8000000", "nr_migrate": "64", "autogroup_enabled": "0", "rr_timeslice_ms": "",
	}
	read := func() map[string]string {
		all := map[string]string{}
		for name := range printed {
			text, err := os.ReadFile(sysctls + name)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			if err == nil {
				all[name] = string(text)
			}
		}
		return all
	}
	before := read()
	if len(before) < len(printed) {
		t.Logf("this kernel has only %q of them", slices.Sorted(maps.Keys(before)))
		run(3, "tune", "apply", "hpc-sched")
	} else {
		run(0, "tune", "apply", "hpc-sched")
		for name, text := range read() {
			if want := printed[name]; want != "" && strings.TrimSpace(text) != want {
				t.Errorf("%s is %q, want %s", name, text, want)
			}
		}
		rows := verifiedRows(t, run)
		for _, row := range rows {
			if row.State != tune.OK {
				t.Error(row)
			}
		}
		if len(rows) != len(printed) {
			t.Errorf("%d settings, want %d", len(rows), len(printed))
		}
		run(0, "tune", "rollback")
	}
	if after := read(); !maps.Equal(before, after) {
		t.Errorf("%q, before %q", after, before)
	}
}

// TestLiveIdleStates: a verification says of each CPU's limit on wake-ups what the kernel counts. Where cpuidle has no
// driver, as in an emulated machine, that is unknown, with the reason. A kernel without such limits is refused.
func TestLiveIdleStates(t *testing.T) {
	dir, run := guestProgram(t)
	write(t, dir, "p.yaml", `apiVersion: berth.dev/v1alpha1
kind: Profile
metadata: {name: p}
spec:
  settings: {cpu.resumeLatency: 20us}
`)
	if _, err := os.Stat("/sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us"); errors.Is(err, fs.ErrNotExist) {
		t.Log("this kernel has no such limits (CONFIG_PM)")
		run(3, "tune", "apply", filepath.Join(dir, "p.yaml"))
		return
	}
	run(0, "tune", "apply", filepath.Join(dir, "p.yaml"))
	t.Cleanup(func() { run(0, "tune", "rollback") })
	driver, err := os.ReadFile("/sys/devices/system/cpu/cpuidle/current_driver")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	_, counts := os.Stat("/sys/devices/system/cpu/cpu0/cpuidle/state0/usage")
	t.Logf("cpuidle driver %q; counts of CPU 0: %v", driver, counts)
	rows := verifiedRows(t, run)
	if len(rows) == 0 {
		t.Error("no CPU has a limit")
	}
	for _, row := range rows {
		if counts != nil && (row.State != tune.Unproven || row.Reason == "") || counts == nil && row.State != tune.OK && row.State != tune.Unproven {
			t.Errorf("%+v", row)
		}
	}
}
