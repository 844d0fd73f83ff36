package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-project/berth/internal/doctor"
)

// TestLiveDoctorAfterCommit: a committed profile shows no drift in the kernel's own notation. Values that another program
// sets are found by the journal of the stateDir that --config names, and only these.
func TestLiveDoctorAfterCommit(t *testing.T) {
	dir, run := guestProgram(t)
	const (
		workqueue  = "/sys/devices/virtual/workqueue/cpumask"
		interrupts = "/proc/irq/default_smp_affinity"
		statistics = "/proc/sys/vm/stat_interval"
	)
	profile := filepath.Join(dir, "p.yaml")
	write(t, dir, "p.yaml", `apiVersion: berth.dev/v1alpha1
kind: Profile
metadata: {name: p}
spec:
  settings: {workqueue.cpus: "0", irq.default: "0-1", irq.affinity: "0-1", sysctl.vm.stat_interval: 7}
`)
	succeeds := func(args ...string) string { t.Helper(); return run(0, args...) }
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
