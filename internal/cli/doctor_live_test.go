package cli_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-project/berth/internal/doctor"
	"github.com/berth-project/berth/test/kernel/job"
)

// TestLiveDoctorAfterCommit: a committed profile shows no drift in the kernel's own notation. Values that another program
// sets are found by the journal of the stateDir that --config names, and only these.
func TestLiveDoctorAfterCommit(t *testing.T) {
	guest, err := job.Guest()
	if err != nil {
		t.Fatal(err)
	}
	if !guest {
		t.Skip("changes the whole host; runs in the VM: make verify-kernels")
	}
	const (
		workqueue  = "/sys/devices/virtual/workqueue/cpumask"
		interrupts = "/proc/irq/default_smp_affinity"
		statistics = "/proc/sys/vm/stat_interval"
	)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "agent.yaml")
	write(t, dir, "agent.yaml", "workloadDir: "+dir+"\nstateDir: "+dir+"\n")
	profile := filepath.Join(dir, "p.yaml")
	write(t, dir, "p.yaml", `apiVersion: berth.dev/v1alpha1
kind: Profile
metadata: {name: p}
spec:
  settings: {workqueue.cpus: "0", irq.default: "0-1", irq.affinity: "0-1", sysctl.vm.stat_interval: 7}
`)
	succeeds := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), exe) // An apply makes its process real-time.
		cmd.Args = append(append([]string{"berth"}, args...), "--config", config)
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v: %s%s", args, err, out, errs.String())
		}
		return string(out)
	}
	drift := func() (files []string) {
		t.Helper()
		var r doctor.Report
		if err := json.Unmarshal([]byte(succeeds("doctor", "--interval", "200ms", "-o", "json")), &r); err != nil {
			t.Fatal(err)
		}
		for _, f := range r.Findings {
			for _, e := range f.Evidence {
				if f.Code == "knob-drift" {
					files = append(files, e.File)
				}
			}
		}
		return files
	}
	succeeds("tune", "apply", profile)
	t.Cleanup(func() { succeeds("tune", "rollback", "--leave-drifted") })
	succeeds("tune", "commit")
	if got := drift(); got != nil {
		t.Errorf("drift right after the commit: %q", got)
	}

	for file, text := range map[string]string{workqueue: "3", interrupts: "1", statistics: "9"} {
		before, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		write(t, "/", file, text)
		t.Cleanup(func() { write(t, "/", file, string(before)) })
	}
	got := drift()
	slices.Sort(got)
	if len(got) != 3 || got[0] != interrupts || got[1] != statistics || !strings.HasPrefix(got[2], workqueue) {
		t.Errorf("drift of %q, want that of %s, %s and %s", got, interrupts, statistics, workqueue)
	}
}
