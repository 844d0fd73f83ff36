package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/berth-project/berth/internal/intent/manifest"
	"github.com/berth-project/berth/internal/intent/workload"
)

// TestAgentFilesAreWhatTheAgentReads loads the benchmarks' files with the agent's own reader.
func TestAgentFilesAreWhatTheAgentReads(t *testing.T) {
	dir := t.TempDir()
	file, err := writeAgentFiles(dir, AgentSetup{Threshold: 70, Workloads: []AgentWorkload{{
		Name: "server", Cgroup: "berth-bench-1", LimitCPUs: 0.5, Burst: Burst{Policy: "auto", QuotaPercent: 300, PeriodSeconds: 10},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	config, err := manifest.LoadConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := manifest.LoadWorkloads(filepath.Join(dir, "workloads"), manifest.Before{}, workload.AdministratorOf(file, config))
	if err != nil || len(loaded.Problems) != 0 || len(loaded.Pending) != 0 || len(loaded.Ready) != 1 {
		t.Fatalf("workloads read back as %+v, error %v", loaded, err)
	}
	w := loaded.Ready[0]
	if w.Name != "server" || w.Cgroup != "berth-bench-1" || w.Limit != 0.5 || w.Burst.Policy != "auto" {
		t.Errorf("workload reads back as %+v", w)
	}
	if got := *config.CPUBurst.ClusterStrategy.SharePoolThresholdPercent; got != 70 {
		t.Errorf("threshold reads back as %d", got)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("configuration: %v, %v", info, err)
	}
}

func TestSweepFilesKeepsThoseOfTheLiving(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	// No process can have the first ID: it exceeds the kernel's maximum.
	dead, alive := "berth-agent-4194305-1", fmt.Sprintf("berth-agent-%d-1", os.Getpid())
	for _, name := range []string{dead, alive, "berth-agent-x"} {
		if err := os.MkdirAll(filepath.Join(temporary, name, "state"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	const linked = "berth-agent-4194305-2" // what is behind it is not this program's
	if err := os.Symlink(t.TempDir(), filepath.Join(temporary, linked)); err != nil {
		t.Fatal(err)
	}
	if err := SweepFiles(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(temporary)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	want := []string{linked, alive, "berth-agent-x"}
	if slices.Sort(want); !slices.Equal(left, want) {
		t.Errorf("left %v, want %v", left, want)
	}
}
