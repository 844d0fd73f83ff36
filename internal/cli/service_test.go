package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-project/berth/internal/intent/manifest"
)

// TestFirstConfig: the agent accepts the file that install-systemd writes, and an existing file is not replaced.
func TestFirstConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth", "agent.yaml")
	if err := writeFirstConfig(path); err != nil {
		t.Fatal(err)
	}
	if _, err := manifest.LoadConfig(path); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(filepath.Join(filepath.Dir(path), "workloads")); err != nil || !info.IsDir() {
		t.Errorf("workloads: %v", err)
	}
	const edited = "workloadDir: /srv\n"
	if err := os.WriteFile(path, []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeFirstConfig(path); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != edited {
		t.Errorf("the file is %q: %v", text, err)
	}
}

// TestServiceDryRun: a dry run prints the steps that it would do, and then the unit.
func TestServiceDryRun(t *testing.T) {
	var out bytes.Buffer
	report := serviceReport{Unit: "/u", DryRun: true, Steps: []string{"write /u", "start it"}, Text: "[Unit]\n"}
	if err := report.print(&out); err != nil {
		t.Fatal(err)
	}
	const want = "would write /u\nwould start it\n\n# /u\n[Unit]\n"
	if out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
	out.Reset()
	report = serviceReport{Steps: []string{"stop it"}, Restored: []restored{}}
	if err := report.print(&out); err != nil || out.String() != "stop it\nnothing to put back\n" {
		t.Errorf("printed %q: %v", out.String(), err)
	}
}
