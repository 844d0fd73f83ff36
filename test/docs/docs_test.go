// Package docs compares the documents with the program: every example file in them must be valid, every command they
// name must parse, and lists must be complete. It has tests only.
package docs

import (
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/agent"
	"github.com/berth-project/berth/internal/capability/tune/profile"
)

const root = "../.."

// documents returns all texts for users and contributors.
func documents(t *testing.T) map[string]string {
	t.Helper()
	names, err := fs.Glob(os.DirFS(root), "docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, name := range append(names, "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "SECURITY.md") {
		text, err := os.ReadFile(root + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(text)
	}
	return texts
}

func TestExampleFilesAreValid(t *testing.T) {
	count := 0
	for name, text := range documents(t) {
		for _, block := range fenced(text, "yaml") {
			if name == "docs/scheduling.md" || name == "docs/placement.md" {
				continue // test/deploy checks these types
			}
			if strings.Contains(block, "kind: Kustomization") {
				continue // test/cluster gives them to kustomize
			}
			count++
			for _, problem := range decode(t, block) {
				t.Errorf("%s: %v in\n%s", name, problem, block)
			}
		}
	}
	if count == 0 {
		t.Error("the documents have no example file any more")
	}
}

// decode decodes an example as the type that it looks like: a workload, a part of a workload, or the agent's file.
func decode(t *testing.T, block string) v1alpha1.FieldErrors {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(block))
	if err != nil {
		t.Fatalf("%v in\n%s", err, block)
	}
	if strings.HasPrefix(block, "metadata:") {
		block = "apiVersion: berth.dev/v1alpha1\nkind: Workload\n" + block + "spec: {cgroup: example.slice}\n"
		if data, err = yaml.YAMLToJSON([]byte(block)); err != nil {
			t.Fatalf("%v in\n%s", err, block)
		}
	}
	if strings.Contains(block, "kind: Workload") {
		w, problems := v1alpha1.DecodeWorkload(data)
		return append(problems, decodeBurst(w)...)
	}
	if strings.Contains(block, "kind: Profile") {
		p, problems := v1alpha1.DecodeProfile(data)
		return append(problems, profile.Check(p)...)
	}
	_, problems := v1alpha1.DecodeAgentConfig(data)
	return problems
}

func decodeBurst(w v1alpha1.Workload) v1alpha1.FieldErrors {
	value, ok := w.Annotations[v1alpha1.AnnotationCPUBurst]
	if !ok {
		return nil
	}
	_, refused, unknown := v1alpha1.DecodeCPUBurst(value)
	return append(refused, unknown...)
}

// fenced returns the code blocks of a language in Markdown text.
func fenced(text, language string) []string {
	var blocks []string
	for _, part := range strings.Split(text, "```"+language+"\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		blocks = append(blocks, block)
	}
	return blocks
}

// TestMetricsAreDocumented compares the metric names on the page of each capability with the capability's metrics, in
// both directions. The page of all metrics is generated.
func TestMetricsAreDocumented(t *testing.T) {
	made := map[string]map[string]bool{}
	for _, info := range agent.Capabilities() {
		for _, m := range info.Metrics {
			if made[info.Page] == nil {
				made[info.Page] = map[string]bool{}
			}
			made[info.Page]["berth_"+m.Name] = true
		}
	}
	texts := documents(t)
	for page, names := range made {
		told := map[string]bool{}
		for _, name := range regexp.MustCompile(`berth_[a-z_]+`).FindAllString(texts[page], -1) {
			told[name] = true
		}
		if diff := cmp.Diff(names, told); diff != "" {
			t.Errorf("metrics of %s (-made +documented):\n%s", page, diff)
		}
	}
}

// TestCapabilitiesAreDocumented checks that each capability has a page, and that the documents contain each key with
// which users request it.
func TestCapabilitiesAreDocumented(t *testing.T) {
	texts := documents(t)
	for _, info := range agent.Capabilities() {
		if _, there := texts[info.Page]; !there {
			t.Errorf("capability %s has its page at %q, which is none", info.Name, info.Page)
		}
		if info.Summary == "" || strings.HasSuffix(info.Summary, ".") {
			t.Errorf("capability %s: summary %q", info.Name, info.Summary)
		}
		for _, key := range info.Keys {
			said := func(text string) bool { return strings.Contains(text, key) }
			if !slices.ContainsFunc(slices.Collect(maps.Values(texts)), said) {
				t.Errorf("no page names %s of capability %s", key, info.Name)
			}
		}
	}
}

// TestDependenciesHaveAReason checks that the table in ARCHITECTURE.md has each direct requirement of go.mod.
func TestDependenciesHaveAReason(t *testing.T) {
	mod, err := os.ReadFile(root + "/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	architecture := documents(t)["ARCHITECTURE.md"]
	direct := regexp.MustCompile(`(?m)^\t([a-z][^ ]+?)(?:/v[0-9]+)? v[^ ]+$`)
	for _, match := range direct.FindAllStringSubmatch(string(mod), -1) {
		if !strings.Contains(architecture, match[1]) {
			t.Errorf("go.mod requires %s, and ARCHITECTURE.md does not say why", match[1])
		}
	}
}

func TestMakeListsItsTargets(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("no make here; runs in make test")
	}
	help := exec.CommandContext(t.Context(), "make", "--no-print-directory", "-C", root, "help")
	help.Env = append(os.Environ(), "MAKEFLAGS=")
	out, err := help.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"demo", "build", "test", "test-quick", "lint", "fuzz", "bench", "verify"} {
		if !strings.Contains(string(out), "make "+target+" ") {
			t.Errorf("make help does not list %s", target)
		}
	}
}
