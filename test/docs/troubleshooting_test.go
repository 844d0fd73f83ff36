package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/capability/burst/credit"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/workload"
)

const troubles = "docs/troubleshooting.md"

// TestTroubleshootingHasEachReason compares the tables of the page with the reasons in the code, in both directions.
// The lists come from the code, so that a new reason needs an entry.
func TestTroubleshootingHasEachReason(t *testing.T) {
	page := documents(t)[troubles]
	for section, made := range map[string][]string{
		"## Events":                            eventReasons(t),
		"## Pinnable":                          pinnableReasons(t),
		"## Decisions":                         burstDecisions(t),
		"## Boundary":                          boundaryReasons(t),
		"### What the CPUs of a node lack":     allocRefusals(t),
		"### What the node lacks besides":      placementRefusals(t),
		"### What the scheduler says of nodes": schedulerTexts(t),
		"### What an administrator's rules re": ruleRefusals(t),
		"### Refusals in one word":             refusedWords(t),
		"### Refusals of the scheduler in one": schedulerWords(t),
		"## Admission":                         policyMessages(t),
	} {
		if len(made) < 3 {
			t.Errorf("%s: found only %q in the code", section, made)
		}
		var said []string
		for _, cells := range rowsBelow(page, section) {
			said = append(said, strings.Trim(cells[0], "`"))
			if cells[1] == "" || cells[2] == "" {
				t.Errorf("%s: %s has no meaning or no remedy", section, cells[0])
			}
		}
		slices.Sort(said)
		if diff := cmp.Diff(slices.Compact(slices.Sorted(slices.Values(made))), said); diff != "" {
			t.Errorf("%s of %s (-made +documented):\n%s", section, troubles, diff)
		}
	}
}

// TestTroubleshootingHasEachCondition compares the conditions and their reasons with the page.
func TestTroubleshootingHasEachCondition(t *testing.T) {
	var made, said []string
	consts := constants(t, "api/v1alpha1")
	inspect(t, "internal", func(dir string, n ast.Node) {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 4 || called(call) != "SetCondition" {
			return
		}
		kind := consts[call.Args[0].(*ast.SelectorExpr).Sel.Name]
		reason, ok := text(call.Args[2], constants(t, dir))
		if public, is := call.Args[2].(*ast.SelectorExpr); is && !ok {
			reason, ok = consts[public.Sel.Name]
		}
		if ok {
			made = append(made, kind+" "+reason)
			return
		}
		if kind == "SharedPoolOvercommitted" { // the reason is a variable with two values
			made = append(made, kind+" Enough", kind+" TooMuchRequested")
		} else if kind != "Pinnable" { // Pinnable has its own table
			t.Errorf("%s: the reason of condition %s is not a constant", dir, kind)
		}
	})
	for _, cells := range rowsBelow(documents(t)[troubles], "## Conditions") {
		said = append(said, strings.Trim(cells[0], "`")+" "+strings.Trim(cells[1], "`"))
	}
	slices.Sort(made)
	slices.Sort(said)
	if diff := cmp.Diff(made, said); diff != "" {
		t.Errorf("conditions of %s (-made +documented):\n%s", troubles, diff)
	}
}

// eventReasons returns the event constants of the public package.
func eventReasons(t *testing.T) []string {
	t.Helper()
	var all []string
	for name, value := range constants(t, "api/v1alpha1") {
		if strings.HasPrefix(name, "Event") {
			all = append(all, value)
		}
	}
	return all
}

// pinnableReasons returns the reasons of every Obstacle that the code makes.
func pinnableReasons(t *testing.T) []string {
	t.Helper()
	var all []string
	observed := constants(t, "internal/node/observed")
	inspect(t, "internal", func(dir string, n ast.Node) {
		made, ok := n.(*ast.CompositeLit)
		if !ok {
			return
		}
		if kind, ok := made.Type.(*ast.SelectorExpr); !ok || kind.Sel.Name != "Obstacle" {
			return
		}
		for _, e := range made.Elts {
			pair, ok := e.(*ast.KeyValueExpr)
			if !ok {
				t.Errorf("%s: an Obstacle without names of its fields", dir)
				continue
			}
			if pair.Key.(*ast.Ident).Name != "Reason" {
				continue
			}
			reason, ok := text(pair.Value, constants(t, dir))
			if public, is := pair.Value.(*ast.SelectorExpr); is && !ok {
				reason, ok = observed[public.Sel.Name]
			}
			if !ok {
				t.Errorf("%s: the reason of an Obstacle is not a constant", dir)
			}
			all = append(all, reason)
		}
	})
	return all
}

// burstDecisions returns the names of all reasons of a quota. A constant without a name gets a generated one from
// String, which the page lacks.
func burstDecisions(t *testing.T) []string {
	t.Helper()
	var all []string
	inspect(t, "internal/capability/burst/credit", func(_ string, node ast.Node) {
		decl, ok := node.(*ast.GenDecl)
		if !ok || decl.Tok != token.CONST {
			return
		}
		if name, ok := decl.Specs[0].(*ast.ValueSpec).Type.(*ast.Ident); ok && name.Name == "Reason" {
			for r := range decl.Specs {
				all = append(all, credit.Reason(r).String())
			}
		}
	})
	return all
}

// allocRefusals returns the texts of all codes, with N for numbers.
func allocRefusals(t *testing.T) []string {
	t.Helper()
	var all []string
	for code := range codes(t, "internal/capability/place/alloc") {
		said := (alloc.Refusal{Code: alloc.RefusalCode(code), Want: 4}).String()
		switch code := alloc.RefusalCode(code); {
		case said != "":
			all = append(all, strings.ReplaceAll(said, "4", "N"))
		case code != alloc.Placed:
			t.Errorf("code %d of the allocator has no text", code)
		}
	}
	return all
}

// placementRefusals returns the texts of all codes except the allocator's.
func placementRefusals(t *testing.T) []string {
	t.Helper()
	var all []string
	for code := range codes(t, "internal/capability/place/placement") {
		said := (placement.Refusal{Code: placement.RefusalCode(code)}).String()
		switch code := placement.RefusalCode(code); {
		case said != "":
			all = append(all, said)
		case code != placement.Placed && code != placement.Allocation:
			t.Errorf("code %d of a placement has no text", code)
		}
	}
	return all
}

// codes returns the number of constants of type RefusalCode in a package.
func codes(t *testing.T, dir string) int {
	t.Helper()
	n := 0
	inspect(t, dir, func(_ string, node ast.Node) {
		decl, ok := node.(*ast.GenDecl)
		if !ok || decl.Tok != token.CONST {
			return
		}
		if name, ok := decl.Specs[0].(*ast.ValueSpec).Type.(*ast.Ident); ok && name.Name == "RefusalCode" {
			n += len(decl.Specs)
		}
	})
	return n
}

// schedulerTexts returns the texts that begin with "node(s)".
func schedulerTexts(t *testing.T) []string {
	t.Helper()
	var all []string
	inspect(t, "internal", func(_ string, n ast.Node) {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return
		}
		said, err := strconv.Unquote(lit.Value)
		switch {
		case err != nil || !strings.HasPrefix(said, "node(s) ") || said == "node(s) had ":
		case strings.HasSuffix(said, "("):
			all = append(all, said+"REASON)")
		default:
			all = append(all, strings.ReplaceAll(said, "%d", "N"))
		}
	})
	return all
}

// ruleRefusals returns the texts of refusals by an administrator's rules.
func ruleRefusals(t *testing.T) []string {
	t.Helper()
	ask := placement.AskOf(workload.Pinning{
		Wanted: true, Scheduled: 1000, Pinned: []workload.PinnedContainer{{Name: "main", CPUs: 4, Limit: 4000, Request: 1000}},
	})
	var all []string
	say := func(r placement.Rules, held int64) {
		why, _ := r.Refusal("NAME", &ask, held)
		all = append(all, regexp.MustCompile(`[0-9]+`).ReplaceAllString(why, "N"))
	}
	say(placement.Rules{Namespaces: []string{"other"}}, 0)
	say(placement.Rules{MostCPUs: 1}, 0)
	say(placement.Rules{MostCPUs: 4}, 4)
	say(placement.Rules{WholeRequest: true}, 0)
	return all
}

// rowsBelow returns the cells of the table that follows a heading.
func rowsBelow(page, heading string) [][]string {
	_, after, _ := strings.Cut(page, "\n"+heading)
	_, after, _ = strings.Cut(after, "|---|---|---|\n")
	table, _, _ := strings.Cut(after, "\n\n")
	var rows [][]string
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows
}

// inspect visits every node of the non-test source files below a directory.
func inspect(t *testing.T, dir string, visit func(dir string, n ast.Node)) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if n != nil {
				visit(filepath.Dir(name), n)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// constants returns the string constants of a package.
func constants(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	inspect(t, dir, func(_ string, n ast.Node) {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return
		}
		for i, name := range spec.Names {
			if i < len(spec.Values) {
				if value, ok := text(spec.Values[i], nil); ok {
					all[name.Name] = value
				}
			}
		}
	})
	return all
}

// text returns the value of a string literal, or of a constant by its name.
func text(e ast.Expr, consts map[string]string) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		value, err := strconv.Unquote(e.Value)
		return value, err == nil && e.Kind == token.STRING
	case *ast.Ident:
		value, ok := consts[e.Name]
		return value, ok
	}
	return "", false
}

// called returns the name of the method or function of a call.
func called(call *ast.CallExpr) string {
	if f, ok := call.Fun.(*ast.SelectorExpr); ok {
		return f.Sel.Name
	}
	return ""
}
