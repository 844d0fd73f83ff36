package deploy

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/api/v1alpha1"
)

// guide returns docs/scheduling.md.
func guide(t *testing.T) string {
	t.Helper()
	return read(t, "docs/scheduling.md")
}

// read reads a file of the source tree.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestGuideExamples decodes every example strictly, and parses the annotations and resources of its pods.
func TestGuideExamples(t *testing.T) {
	examples := strings.Split(guide(t), "```yaml\n")[1:]
	if len(examples) < 3 {
		t.Fatalf("%d examples", len(examples))
	}
	for _, example := range examples {
		example, _, _ = strings.Cut(example, "```")
		if strings.Contains(example, "apiVersion: descheduler/") {
			continue // an example of another program, whose types are not imported
		}
		if !strings.Contains(example, "kind: "+v1alpha1.KindSchedulerArgs) {
			if _, err := strict(t, []byte(example)); err != nil {
				t.Errorf("%v in\n%s", err, example)
			}
			continue
		}
		data, err := yaml.YAMLToJSON([]byte(example))
		if err != nil {
			t.Fatal(err)
		}
		if _, problems := v1alpha1.DecodeSchedulerArgs(data); len(problems) > 0 {
			t.Errorf("%v in\n%s", problems, example)
		}
	}
}

// TestGuideNamesFiles finds named files that do not exist, and manifests that the guide omits.
func TestGuideNamesFiles(t *testing.T) {
	text, agents := guide(t), read(t, "SECURITY.md")
	for _, name := range regexp.MustCompile(`(?:deploy|cmd)/[a-z./-]*[a-z]`).FindAllString(text+agents, -1) {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Errorf("a guide names %s: %v", name, err)
		}
	}
	for _, m := range manifests(t) {
		of, name := text, filepath.Base(m.file)
		if strings.HasPrefix(m.file, "agent/") || m.file == "koordinator-namespace.yaml" || strings.HasPrefix(m.file, "patch/") || strings.HasPrefix(m.file, "uninstall/") || strings.HasPrefix(m.file, "hostpid/") {
			of = agents
		}
		if !strings.Contains(of, name) && !strings.HasPrefix(m.file, "crd/") {
			t.Errorf("no guide names %s", m.file)
		}
	}
}

// TestGuideListsArguments compares the table of arguments with the type, in both directions.
func TestGuideListsArguments(t *testing.T) {
	_, rest, _ := strings.Cut(guide(t), "## Arguments of the plugin")
	section, _, _ := strings.Cut(rest, "\n## ")
	var told, made []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-zA-Z]+)` \\|").FindAllStringSubmatch(section, -1) {
		told = append(told, row[1])
	}
	for field := range reflect.TypeFor[v1alpha1.SchedulerArgs]().Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			made = append(made, name)
		}
	}
	if diff := cmp.Diff(made, told); diff != "" {
		t.Errorf("arguments (-made +documented):\n%s", diff)
	}
}

// TestGuideListsMetrics compares the names in the guide with the metrics of the plugin.
func TestGuideListsMetrics(t *testing.T) {
	source, err := os.ReadFile(root + "/internal/scheduler/schedule/metrics.go")
	if err != nil {
		t.Fatal(err)
	}
	var made []string
	for _, match := range regexp.MustCompile(`(?:counter|counterVec|gaugeVec)\("([a-z_]+)"|Name: "([a-z_]+)"`).FindAllStringSubmatch(string(source), -1) {
		made = append(made, "berth_scheduler_"+match[1]+match[2])
	}
	told := regexp.MustCompile(`berth_scheduler_[a-z_]+`).FindAllString(guide(t), -1)
	for _, names := range []*[]string{&made, &told} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
	}
	if diff := cmp.Diff(made, told); diff != "" {
		t.Errorf("metrics (-made +documented):\n%s", diff)
	}
}

// TestGuideQuotesTheProgram finds statuses in the table of cases that no part of the program produces.
func TestGuideQuotesTheProgram(t *testing.T) {
	var source strings.Builder
	for _, dir := range []string{"capability/place/alloc", "capability/place/placement", "scheduler/schedule"} {
		err := filepath.WalkDir(filepath.Join(root, "internal", dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" {
				return err
			}
			text, err := os.ReadFile(path)
			source.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	_, rest, _ := strings.Cut(guide(t), "| Case | The pod | Status of a node |")
	section, _, _ := strings.Cut(rest, "\n\n")
	count := 0
	for row := range strings.Lines(section) {
		cells := strings.Split(strings.TrimSpace(row), "|")
		if len(cells) < 4 {
			continue
		}
		for _, quote := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[3], -1) {
			count++
			if !strings.Contains(source.String(), quote[1]) {
				t.Errorf("the guide quotes %q, which nothing says", quote[1])
			}
		}
	}
	if count < 5 {
		t.Errorf("%d quotes found in\n%s", count, section)
	}
}
