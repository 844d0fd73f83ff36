package manifest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/intent/workload"
)

var update = flag.Bool("update", false, "write the golden messages again")

// TestWorkloadMessages loads each case.yaml of testdata/workloads.txtar as the only file of a directory, and compares
// the message to the user with case.want.
func TestWorkloadMessages(t *testing.T) {
	golden(t, "testdata/workloads.txtar", func(t *testing.T, name string, text []byte) string {
		dir := t.TempDir()
		write(t, filepath.Join(dir, name), string(text))
		loaded, err := LoadWorkloads(dir, Before{}, administrator())
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(report(loaded), dir+"/", "")
	})
}

// TestConfigMessages does the same for the agent's file.
func TestConfigMessages(t *testing.T) {
	golden(t, "testdata/config.txtar", func(t *testing.T, name string, text []byte) string {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		write(t, path, string(text))
		cfg, err := LoadConfig(path)
		told := "good\n"
		if err != nil {
			told = err.Error() + "\n"
		} else if warnings := ConfigWarnings(path, cfg); len(warnings) > 0 {
			told += "Warning: " + warnings.Error() + "\n"
		}
		return strings.ReplaceAll(told, dir+"/", "")
	})
}

// golden runs every pair NAME.yaml, NAME.want of an archive.
func golden(t *testing.T, archive string, run func(t *testing.T, name string, text []byte) string) {
	t.Helper()
	pairs, err := txtar.ParseFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	fresh := &txtar.Archive{Comment: pairs.Comment}
	wanted := map[string]string{}
	for _, file := range pairs.Files {
		wanted[file.Name] = string(file.Data)
	}
	for _, file := range pairs.Files {
		name, isCase := strings.CutSuffix(file.Name, ".yaml")
		if !isCase {
			continue
		}
		t.Run(name, func(t *testing.T) {
			got := run(t, file.Name, file.Data)
			fresh.Files = append(fresh.Files, file, txtar.File{Name: name + ".want", Data: []byte(got)})
			want, found := wanted[name+".want"]
			if diff := cmp.Diff(want, got); !*update && (!found || diff != "") {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
	if *update {
		write(t, archive, string(txtar.Format(fresh)))
	}
}

// report formats the result of loading a directory.
func report(loaded Workloads) string {
	var b strings.Builder
	for _, w := range loaded.Ready {
		b.WriteString("ready " + w.Name + "\n")
	}
	for _, p := range loaded.Pending {
		b.WriteString("pending " + p.Workload.Name + ": " + p.Reason.Error() + "\n")
	}
	for _, p := range loaded.Problems {
		b.WriteString(string(p.Kind) + " " + p.Workload + " " + p.File + "\n\t" + strings.ReplaceAll(p.Err.Error(), "\n", "\n\t") + "\n")
	}
	return b.String()
}

func administrator() workload.Administrator {
	return workload.AdministratorOf("agent.yaml", v1alpha1.AgentConfig{WorkloadDir: "w"})
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
