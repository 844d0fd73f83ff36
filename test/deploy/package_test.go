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

// TestPackageContents checks that each file of the packages is in the tree or is built. The unit must start the program
// at its installed path, and the packaged configuration must be valid.
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
	for name, is := range map[string]struct{ starts, wanted string }{
		"berth-agent.service": {"/usr/bin/berth agent --config /etc/berth/agent.yaml", "multi-user.target"},
		"berth-tune.service":  {"/usr/bin/berth tune apply --committed", "multi-user.target"},
		"berth-ahead.service": {"/usr/bin/berth tune ahead", "basic.target"},
	} {
		_, packed := places["/usr/bin/berth"]
		_, shipped := places["/usr/lib/systemd/system/"+name]
		unit := sections(t, name, read(name))
		if !packed || !shipped || unit["Service"]["ExecStart"] != is.starts || unit["Install"]["WantedBy"] != is.wanted {
			t.Errorf("%s: in the packages %v, which have the program %v: %v", name, shipped, packed, unit)
		}
		if !strings.Contains(read("preremove.sh"), name) {
			t.Errorf("%s stays when the package goes", name)
		}
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

// sections parses a systemd unit according to systemd.syntax(7). It does not support what no unit here uses: continued
// lines, and repeated keys other than ExecStopPost.
func sections(t *testing.T, name, text string) map[string]map[string]string {
	t.Helper()
	all := map[string]map[string]string{}
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		key, value, assigns := strings.Cut(line, "=")
		switch {
		case line == "", line[0] == '#':
		case strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]"):
			section = strings.Trim(line, "[]")
			all[section] = map[string]string{}
		case !assigns || section == "" || key == "" || strings.ContainsAny(key, " \t") || all[section][key] != "" && key != "ExecStopPost":
			t.Errorf("%s: %q", name, line)
		default:
			all[section][key] = value
		}
	}
	for _, section := range []string{"Unit", "Service", "Install"} {
		if len(all[section]) == 0 {
			t.Errorf("%s has no section %s", name, section)
		}
	}
	return all
}

// TestProfileAtBoot checks that the unit starts only if a profile is recorded, and after the units that the profile
// names. It must be able to give their threads a real-time policy.
func TestProfileAtBoot(t *testing.T) {
	text, err := os.ReadFile("../../deploy/package/berth-tune.service")
	if err != nil {
		t.Fatal(err)
	}
	unit := sections(t, "berth-tune.service", string(text))
	if at := unit["Unit"]["ConditionPathExists"]; at != "/var/lib/berth/tune/applied" {
		t.Errorf("it starts where there is %q", at)
	}
	if unit["Unit"]["After"] != "multi-user.target" || unit["Service"]["Type"] != "oneshot" || unit["Service"]["RestrictRealtime"] == "yes" {
		t.Errorf("%v", unit)
	}
}

// TestListsBeforeUnits checks that the lists of units come before every unit with default dependencies, which is after
// basic.target, and that a boot goes on without them. A unit with default dependencies would be after basic.target
// itself, and systemd would delete it from that cycle. Whoever enables berth-tune gets both.
func TestListsBeforeUnits(t *testing.T) {
	text := map[string]map[string]map[string]string{}
	for _, name := range []string{"berth-ahead.service", "berth-tune.service"} {
		data, err := os.ReadFile("../../deploy/package/" + name)
		if err != nil {
			t.Fatal(err)
		}
		text[name] = sections(t, name, string(data))
	}
	ahead, tune := text["berth-ahead.service"], text["berth-tune.service"]
	for key, want := range map[string]string{
		"DefaultDependencies": "no", "After": "sysinit.target", "Before": "basic.target shutdown.target",
		"Conflicts": "shutdown.target", "ConditionPathExists": tune["Unit"]["ConditionPathExists"],
	} {
		if got := ahead["Unit"][key]; got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if ahead["Service"]["Type"] != "oneshot" || ahead["Service"]["TimeoutStartSec"] == "" || ahead["Service"]["Restart"] != "" {
		t.Errorf("a boot may wait for %v", ahead["Service"])
	}
	if tune["Install"]["Also"] != "berth-ahead.service" {
		t.Errorf("enabled alone: %v", tune["Install"])
	}
}

// TestUpgradeUndoesNothing checks that the packages' pre-removal script does nothing while another version replaces the
// package, for the arguments of both formats.
func TestUpgradeUndoesNothing(t *testing.T) {
	for _, argument := range []string{"upgrade", "1", "deconfigure", "failed-upgrade"} {
		out, err := exec.CommandContext(t.Context(), "sh", "-x", "../../deploy/package/preremove.sh", argument).CombinedOutput()
		if err != nil || strings.Contains(string(out), "rollback") || strings.Contains(string(out), "systemctl") {
			t.Errorf("%s: %v\n%s", argument, err, out)
		}
	}
}
