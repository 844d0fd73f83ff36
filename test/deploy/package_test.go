package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/api/v1alpha1"
)

// TestPackageContents: each file of the packages is in the tree or is built, the unit starts
// the program where the package has it, and the configuration that it brings is valid.
func TestPackageContents(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile("../../deploy/package/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var nfpm struct {
		Contents []struct{ Src, Dst, Type string }
		Scripts  map[string]string
	}
	if err := yaml.Unmarshal([]byte(read("nfpm.yaml")), &nfpm); err != nil {
		t.Fatal(err)
	}
	files := []string{}
	for _, script := range nfpm.Scripts {
		files = append(files, script)
	}
	places := map[string]string{}
	for _, c := range nfpm.Contents {
		places[c.Dst] = c.Type
		if c.Src != "" && !strings.HasPrefix(c.Src, "${OUT}/") && c.Type != "symlink" {
			files = append(files, c.Src)
		}
	}
	for _, name := range files {
		if _, err := os.Stat(filepath.Join("../..", name)); err != nil {
			t.Error(err)
		}
	}
	if places["/etc/berth/agent.yaml"] != "config|noreplace" || places["/usr/bin/kubectl-berth"] != "symlink" {
		t.Errorf("the packages have %v", places)
	}
	unit := read("berth-agent.service")
	_, packed := places["/usr/bin/berth"]
	if !packed || !strings.Contains(unit, "\nExecStart=/usr/bin/berth agent --config /etc/berth/agent.yaml\n") {
		t.Error("the unit does not start the program of the package")
	}
	data, err := yaml.YAMLToJSON([]byte(read("agent.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	cfg, problems := v1alpha1.DecodeAgentConfig(data)
	if _, made := places[cfg.WorkloadDir]; len(problems) > 0 || !made {
		t.Errorf("agent.yaml: %v; the package makes no %s", problems, cfg.WorkloadDir)
	}
}

// TestUpgradeUndoesNothing: what a package runs before it goes does nothing while another
// version takes its place, in the words of both formats.
func TestUpgradeUndoesNothing(t *testing.T) {
	for _, argument := range []string{"upgrade", "1", "deconfigure", "failed-upgrade"} {
		out, err := exec.CommandContext(t.Context(), "sh", "-x", "../../deploy/package/preremove.sh", argument).CombinedOutput()
		if err != nil || strings.Contains(string(out), "rollback") || strings.Contains(string(out), "systemctl") {
			t.Errorf("%s: %v\n%s", argument, err, out)
		}
	}
}
