package bench

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-project/berth/internal/manifest"
	"github.com/berth-project/berth/internal/workload"
)

// TestAgentFilesAreWhatTheAgentReads loads what the benchmarks write with the
// agent's own reader.
func TestAgentFilesAreWhatTheAgentReads(t *testing.T) {
	dir := t.TempDir()
	file, err := WriteAgentFiles(dir, 70, []AgentWorkload{{
		Name: "server", Cgroup: "berth-bench-1", LimitCPUs: 0.5, Burst: Burst{Policy: "auto", QuotaPercent: 300, PeriodSeconds: 10},
	}})
	if err != nil {
		t.Fatal(err)
	}
	config, err := manifest.LoadConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := manifest.LoadWorkloads(filepath.Join(dir, "workloads"), workload.AdministratorOf(file, config))
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
