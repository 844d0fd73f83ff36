package docs

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/placement"
)

// refusedWords returns the values of the label reason of berth_refused_containers: the words of all refusals, and those
// that the code gives to a pod itself.
func refusedWords(t *testing.T) []string {
	t.Helper()
	const dir = "internal/capability/place"
	var all []string
	add := func(e ast.Expr) {
		if call, ok := e.(*ast.CallExpr); ok && called(call) == "Word" {
			return // the words of refusals, below
		}
		if field, ok := e.(*ast.SelectorExpr); ok && field.Sel.Name == "word" {
			return // a word that was assigned elsewhere
		}
		word, ok := text(e, constants(t, dir))
		if !ok {
			t.Errorf("%s: a word of a refusal is not a constant", dir)
		}
		all = append(all, word)
	}
	inspect(t, dir, func(at string, n ast.Node) {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, to := range n.Lhs {
				if field, ok := to.(*ast.SelectorExpr); ok && field.Sel.Name == "word" && at == dir && len(n.Rhs) == len(n.Lhs) {
					add(n.Rhs[i])
				}
			}
		case *ast.FuncDecl:
			if n.Name.Name != "refused" || n.Recv == nil || at != dir {
				return
			}
			ast.Inspect(n, func(n ast.Node) bool {
				if back, ok := n.(*ast.ReturnStmt); ok && len(back.Results) == 2 {
					add(back.Results[1])
				}
				return true
			})
		}
	})
	for code := range codes(t, dir+"/placement") {
		all = append(all, placement.Refusal{Code: placement.RefusalCode(code)}.Word())
	}
	for code := range codes(t, dir+"/alloc") {
		all = append(all, alloc.RefusalCode(code).Word())
	}
	return slices.DeleteFunc(all, func(word string) bool { return word == "" })
}

// schedulerWords returns the values of the label reason of berth_scheduler_refusals_total: the texts of the method
// String, except that of an impossible set of reasons.
func schedulerWords(t *testing.T) []string {
	t.Helper()
	var all []string
	inspect(t, "internal/scheduler/schedule", func(_ string, n ast.Node) {
		method, ok := n.(*ast.FuncDecl)
		if !ok || method.Name.Name != "String" || method.Recv == nil {
			return
		}
		if of, ok := method.Recv.List[0].Type.(*ast.Ident); !ok || of.Name != "refusal" {
			return
		}
		ast.Inspect(method, func(n ast.Node) bool {
			if back, ok := n.(*ast.ReturnStmt); ok {
				if word, ok := text(back.Results[0], nil); ok {
					all = append(all, word)
				}
			}
			return true
		})
	})
	count := regexp.MustCompile(`(?m)^const reasons = (\d+)$`).FindStringSubmatch(source(t, "internal/scheduler/schedule/waiting.go"))
	if count == nil || strconv.Itoa(len(all)) != count[1] {
		t.Errorf("of the scheduler's reasons, %q, these have a name: %q", count, all)
	}
	return all
}

// boundaryReasons returns the texts of the constants that say why the boundary is where it is.
func boundaryReasons(t *testing.T) []string {
	t.Helper()
	const dir = "internal/capability/isolate"
	var all []string
	inspect(t, dir, func(at string, n ast.Node) {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || at != dir {
			return
		}
		if of, ok := spec.Type.(*ast.Ident); !ok || of.Name != "Reason" {
			return
		}
		for _, e := range spec.Values {
			said, ok := text(e, nil)
			if !ok {
				t.Errorf("%s: a reason is not a constant", dir)
			}
			all = append(all, said)
		}
	})
	return all
}

// source returns a file of the tree.
func source(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// policyMessages returns the messages of all admission policies, with an ellipsis in place of each value.
func policyMessages(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"deploy/policy/*.yaml", "deploy/agent/policy.yaml"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for document := range strings.SplitSeq(string(text), "\n---\n") {
				var policy struct {
					Kind string
					Spec struct {
						Validations []struct{ Message, MessageExpression string }
					}
				}
				if err := yaml.Unmarshal([]byte(document), &policy); err != nil {
					t.Fatalf("%s: %v", file, err)
				}
				if policy.Kind == "ValidatingAdmissionPolicy" && len(policy.Spec.Validations) == 0 {
					t.Errorf("%s: a policy without validations", file)
				}
				for _, v := range policy.Spec.Validations {
					if v.Message == "" && v.MessageExpression == "" {
						t.Errorf("%s: a validation without a message", file)
					}
					all = append(all, v.Message+expressed(v.MessageExpression))
				}
			}
		}
	}
	return all
}

// expressed returns the text of a CEL expression that joins texts and values, with an ellipsis in place of each value.
func expressed(expression string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(joints(expression), "\x00") {
		switch part = strings.TrimSpace(part); {
		case strings.HasPrefix(part, "'"):
			b.WriteString(strings.Trim(part, "'"))
		case part != "":
			b.WriteString("…")
		}
	}
	return b.String()
}

// joints puts a zero byte in place of each plus that joins two parts of an expression: outside of texts and brackets.
func joints(expression string) string {
	quoted, depth := false, 0
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\'':
			quoted = !quoted
		case quoted:
		case strings.ContainsRune("([{", r):
			depth++
		case strings.ContainsRune(")]}", r):
			depth--
		case r == '+' && depth == 0:
			return 0
		}
		return r
	}, expression)
}

// TestExpressed shows what becomes of the parts of an expression.
func TestExpressed(t *testing.T) {
	for expression, want := range map[string]string{
		"":                                     "",
		"'a: value \"' + v['a'] + '\": no'":    `a: value "…": no`,
		"v.all.join(', ') + ': no'":            "…: no",
		"'no: ' + a.?b.orValue('') + ', ' + c": "no: …, …",
	} {
		if got := expressed(expression); got != want {
			t.Errorf("%s: %s, want %s", expression, got, want)
		}
	}
}

// TestEachAlertHasItsEntry compares the alerts with the headings of their page, in both directions. Each entry has the
// cause, how to see it and the remedy, and the alert names its entry.
func TestEachAlertHasItsEntry(t *testing.T) {
	const page = "docs/alerts.md"
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert       string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(source(t, "deploy/monitoring/rules.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	var made, said []string
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			made = append(made, rule.Alert)
			if want := page + "#" + strings.ToLower(rule.Alert); rule.Annotations["runbook"] != want {
				t.Errorf("%s: runbook %q, want %s", rule.Alert, rule.Annotations["runbook"], want)
			}
		}
	}
	for _, entry := range strings.Split(documents(t)[page], "\n## ")[1:] {
		name, body, _ := strings.Cut(entry, "\n")
		said = append(said, name)
		for _, part := range []string{"- Cause: ", "- See it: ", "- Remedy: "} {
			if _, rest, found := strings.Cut(body, "\n"+part); !found || rest == "" || strings.HasPrefix(rest, "\n") {
				t.Errorf("%s: %s has no %q", page, name, part)
			}
		}
	}
	if diff := cmp.Diff(made, said); diff != "" || len(made) == 0 {
		t.Errorf("alerts of %s (-made +documented):\n%s", page, diff)
	}
}
