package chart

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// leaves returns the paths of the values with their defaults, as the page writes them.
func leaves(prefix string, values map[string]any) map[string]string {
	all := map[string]string{}
	for name, value := range values {
		inner, nested := value.(map[string]any)
		if !nested || len(inner) == 0 {
			text, err := json.Marshal(value)
			if err != nil {
				text = []byte(err.Error())
			}
			all[prefix+name] = string(text)
			if said, ok := value.(string); ok && said != "" {
				all[prefix+name] = said
			}
			continue
		}
		maps.Copy(all, leaves(prefix+name+".", inner))
	}
	return all
}

// value is a value of the chart: its path, and the comment above it.
type value struct{ path, comment string }

// commented returns the values of a file in block style, in their order. A value with others below it is none.
func commented(text string) []value {
	var all []value
	var above, comment []string
	key := regexp.MustCompile(`^( *)([A-Za-z]+):( .*)?$`)
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if said, ok := strings.CutPrefix(strings.TrimSpace(line), "# "); ok {
			comment = append(comment, said)
			continue
		}
		match := key.FindStringSubmatch(line)
		if match == nil {
			comment = nil
			continue
		}
		above = append(above[:min(len(match[1])/2, len(above))], match[2])
		if match[3] != "" {
			all = append(all, value{strings.Join(above, "."), strings.Join(comment, " ")})
		}
		comment = nil
	}
	return all
}

// typeOf returns the type of a value by its schema, as the page writes it.
func typeOf(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	schema := object{}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	var at []any
	for step := range strings.SplitSeq(path, ".") {
		at = append(at, "properties", step)
	}
	member, _ := schema.at(at...).(map[string]any)
	low, high := member["minimum"], member["maximum"]
	switch words, _ := member["enum"].([]any); {
	case len(words) > 0:
		var all []string
		for _, word := range words {
			// A boolean is what YAML makes of the words on and off.
			if word, ok := word.(string); ok {
				all = append(all, "`"+word+"`")
			}
		}
		return strings.Join(all, ", ")
	case member["$ref"] != nil:
		return "object"
	case low != nil && high != nil:
		return fmt.Sprintf("%v, %v to %v", member["type"], low, high)
	case low != nil:
		return fmt.Sprintf("%v, at least %v", member["type"], low)
	case member["type"] == "array":
		return "list"
	case member["type"] != nil:
		return fmt.Sprint(member["type"])
	}
	t.Errorf("the schema has no type of %s", path)
	return ""
}

// linked returns a comment with a link in place of each path of a page.
func linked(comment string) string {
	page := regexp.MustCompile(`\b(?:docs/([a-z-]+)|SECURITY)\.md(#[a-z-]+)?`)
	return page.ReplaceAllStringFunc(comment, func(name string) string {
		match := page.FindStringSubmatch(name)
		if match[1] == "" {
			return "[SECURITY.md](../SECURITY.md" + match[2] + ")"
		}
		return "[" + match[1] + "](" + match[1] + ".md" + match[2] + ")"
	})
}

// TestPage compares the table of docs/chart.md with the values, their comments and their types.
func TestPage(t *testing.T) {
	const page, command = "../../docs/chart.md", "<!-- Generated: go -C test/chart test . -run TestPage -update -->\n"
	file, err := os.ReadFile(filepath.Join(dir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defaults := leaves("", load(t).Values)
	var b strings.Builder
	b.WriteString(command + "| Value | Type | Default | Meaning |\n|---|---|---|---|\n")
	var said []string
	for _, v := range commented(string(file)) {
		said = append(said, v.path)
		if !strings.HasSuffix(v.comment, ".") {
			t.Errorf("%s has no comment, or one that ends without a full stop: %q", v.path, v.comment)
		}
		fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s |\n", v.path, typeOf(t, v.path), defaults[v.path], linked(v.comment))
	}
	slices.Sort(said)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(defaults)), said); diff != "" {
		t.Errorf("values in block style (-chart +found):\n%s", diff)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	table := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(command) + `(?:\|[^\n]*\n)*`)
	if len(table.FindAll(text, -1)) != 1 {
		t.Fatal("docs/chart.md has no place for the table")
	}
	made := table.ReplaceAllLiteralString(string(text), b.String())
	if *update {
		if err := os.WriteFile(page, []byte(made), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(text), made); diff != "" {
		t.Errorf("docs/chart.md (-update writes it; -file +generated):\n%s", diff)
	}
}

// TestRolesAreTheManifests renders everything that the chart can have, hooks included. Each role equals one of the
// manifests, whose rights TestSecurityExplainsEachRight of test/deploy compares with SECURITY.md.
func TestRolesAreTheManifests(t *testing.T) {
	known := manifests(t, "agent/rbac.yaml", "agent/viewer.yaml", "repack.yaml", "scheduler/rbac.yaml", "uninstall/rbac.yaml")
	kinds := []string{"ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"}
	for _, mode := range []string{"sideBySide", "replace"} {
		all := render(t, newest, "kube-system", `
agent: {hostPID: true, tls: true, kubelet: state}
scheduler: {mode: `+mode+`}
monitoring: {rules: true, dashboards: true, monitors: true}
raiseRequests: true
`)
		if diff := cmp.Diff(only(known, kinds...), only(all, kinds...)); diff != "" {
			t.Errorf("%s: roles and bindings (-manifests +chart):\n%s", mode, diff)
		}
		for _, key := range only(all, kinds...) {
			for _, field := range []string{"rules", "roleRef", "subjects"} {
				if diff := cmp.Diff(known[key][field], all[key][field]); diff != "" {
					t.Errorf("%s: %s of %s (-manifests +chart):\n%s", mode, field, key, diff)
				}
			}
		}
	}
}
