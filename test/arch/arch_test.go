// Package arch holds the module to its own architecture: layers, guarded
// imports, package comments, package names and file sizes. It has tests only.
package arch

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/berth-project/berth/test/flags"
)

const root = "../.."

func TestModuleKeepsItsRules(t *testing.T) {
	found, err := check(os.DirFS(root), house(architecture(t)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		t.Error(f)
	}
}

// TestNoTemplateEngine requires that the agent does not link html/template, which costs 20 MB of program and 12 MB of
// memory. Storages of Prometheus and the tracing pages of gRPC import it. The flags are those of the shipped program.
func TestNoTemplateEngine(t *testing.T) {
	compiling, err := flags.Compiling(root)
	if err != nil {
		t.Fatal(err)
	}
	list := exec.CommandContext(t.Context(), "go", append(append([]string{"list", "-deps"}, compiling...), "./cmd/berth")...)
	list.Dir = root
	list.Env = append(os.Environ(), "GOFLAGS=") // else flags that the Makefile has lost could come from there
	var said strings.Builder
	list.Stderr = &said
	text, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	linked := strings.Fields(string(text))
	if !slices.Contains(linked, "github.com/prometheus/prometheus/promql") {
		t.Fatalf("%d packages, and not those of queries", len(linked))
	}
	if slices.Contains(linked, "html/template") {
		t.Error("cmd/berth links html/template; go mod why html/template names the imports on the way")
	}
}

// TestOneSetOfFlags finds programs of tests that run the compiler without the flags of the Makefile. Tests themselves
// have the flags from the environment, because the Makefile runs them.
func TestOneSetOfFlags(t *testing.T) {
	const runs, asks = `(ctx, "go", `, "\t\"github.com/berth-project/berth/test/flags\"\n"
	found := 0
	err := fs.WalkDir(os.DirFS(root), "test", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path.Join(root, name))
		if !strings.Contains(string(text), runs) {
			return err
		}
		if found++; !strings.Contains(string(text), asks) {
			t.Errorf("%s runs the compiler and does not import test/flags", name)
		}
		return err
	})
	if err != nil || found < 2 {
		t.Errorf("%d programs of tests run the compiler: %v", found, err)
	}
}

// TestAgentNamesCapabilitiesOnce requires that one file of the agent imports the capabilities: the rest of the agent
// works with any list of them.
func TestAgentNamesCapabilitiesOnce(t *testing.T) {
	files, err := fs.Glob(os.DirFS(root), "internal/agent/*.go")
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path.Join(root, name), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range file.Imports {
			switch room := path.Base(strings.Trim(i.Path.Value, `"`)); room {
			case "drift", "localize", "offline", "pin", "quota":
				if named++; path.Base(name) != "capabilities.go" {
					t.Errorf("%s imports %s: only capabilities.go names a capability", name, room)
				}
			}
		}
	}
	if named < 5 {
		t.Errorf("capabilities.go imports %d of five capabilities", named)
	}
}

func TestArchitectureListsEveryPackage(t *testing.T) {
	pkgs, err := load(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	document := architecture(t)
	for _, f := range listed(document, slices.Collect(maps.Keys(pkgs)), house(document)) {
		t.Errorf("docs/rooms.md %s", f)
	}
}

func architecture(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(root + "/docs/rooms.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDocumentsNameRealPaths finds links of the documents to files and directories that no longer exist.
func TestDocumentsNameRealPaths(t *testing.T) {
	for _, document := range []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/burst.md", "docs/rooms.md", "docs/state.md"} {
		text, err := os.ReadFile(root + "/" + document)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, target := range linkTargets(string(text)) {
			if _, err := os.Stat(root + "/" + dirOf(document) + target); err != nil {
				t.Errorf("%s links to %s: %v", document, target, err)
			}
		}
	}
}

// TestPropertiesAreFixed finds test packages that draw random cases without importing test/chance. Their properties
// would draw different cases in each run.
func TestPropertiesAreFixed(t *testing.T) {
	const library, fixed = `"pgregory.net/rapid"`, `"github.com/berth-project/berth/test/chance"`
	draws, fixes := map[string]bool{}, map[string]bool{"test/chance": true}
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, "_test.go") || name == "test/arch/arch_test.go" {
			return err
		}
		text, err := os.ReadFile(root + "/" + name)
		dir := path.Dir(name)
		draws[dir] = draws[dir] || strings.Contains(string(text), library)
		fixes[dir] = fixes[dir] || strings.Contains(string(text), fixed)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for dir, does := range draws {
		if does {
			found++
		}
		if does && !fixes[dir] {
			t.Errorf("%s: its properties import rapid and not test/chance: they draw other cases in each run", dir)
		}
	}
	if found < 20 {
		t.Errorf("%d packages with properties found", found)
	}
}

// linkTargets returns the relative files that Markdown text links to.
func linkTargets(text string) []string {
	var targets []string
	for _, part := range strings.Split(text, "](")[1:] {
		target, _, ok := strings.Cut(part, ")")
		target, _, _ = strings.Cut(target, "#")
		if ok && target != "" && !strings.Contains(target, "://") {
			targets = append(targets, target)
		}
	}
	return targets
}

func dirOf(document string) string {
	if i := strings.LastIndexByte(document, '/'); i >= 0 {
		return document[:i+1]
	}
	return ""
}

// TestCheckFindsEachFault gives check a small module with one fault of each kind, because a rule that never fails
// protects nothing.
func TestCheckFindsEachFault(t *testing.T) {
	r := rules{
		module:   "example.test/m",
		maxLines: 10,
		harness:  []string{"harness"},
		banned:   []string{"util"},
		layering: layering{
			layers: [][]string{{"top", "gone"}, {"cap", "util"}, {"low", "next", "drive"}},
			apart:  "cap",
			sideways: map[string]string{
				"cap/beside/agent imports cap/pure": "it may",
				"cap/beside/agent imports low":      "it does not",
			},
		},
		guards: []guard{
			{path: "os/exec", only: []string{"top"}, why: "starts programs"},
			{path: "unsafe", only: []string{"low"}, why: "unused rule"},
			{path: "math/rand", exact: true, why: "old"},
		},
		pure: pureRule{rooms: []string{"low", "cap/pure"}, imports: []string{"os"}, why: "pure"},
		clock: clockRule{calls: []string{"Now", "Since"}, only: map[string]string{
			"low": "it is pure", "next": "it does not", "top": "it may", "past": "it is gone",
		}},
	}
	r.host = hostRule{
		under: "cap", files: []string{"io", "os"}, drives: []string{"drive"},
		values: map[string][]string{"drive/value": nil, "drive/writer": {"Setting"}, "io": {"EOF"}, "os": {"Getpid"}},
		loop:   []string{"cap/loop"},
		beside: []string{"cap/beside", "cap/beside/agent"},
	}
	got, err := check(open(t, "testdata/faulty.txtar"), r)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`cap/beside: imports cap/pure sideways [cap/beside/b.go]`,
		`cap/loop: imports io/fs, which reaches the host [cap/loop/l.go]`,
		`cap/loop: uses Open of os, which reaches the host [cap/loop/l.go]`,
		`cap/pure: imports example.test/m/drive, which reaches the host [cap/pure/p.go]`,
		`cap/pure: imports io, which reaches the host [cap/pure/p.go]`,
		`cap/pure: uses Write of example.test/m/drive/writer, which reaches the host [cap/pure/p.go]`,
		`cap/unknown: is no pure room, and ARCHITECTURE.md does not say how it reaches the host`,
		`extra/f.go:8: compares the text of an error: use errors.Is`,
		`extra/f.go:8: compares the text of an error: use errors.Is`,
		`extra/g.go:6: hands a pointer as a number to a function of Go: it goes stale when the stack moves`,
		`extra: is in no layer`,
		`extra: time.Now: the time comes in as a value [extra/e.go]`,
		`extra: time.Since: the time comes in as a value [extra/f.go]`,
		`harness/tool: 0 package comments, want exactly 1 []`,
		`low/long.go: 12 lines, at most 10`,
		`low: imports next: arrows point down only [low/low.go]`,
		`low: imports os/exec: starts programs [low/low.go]`,
		`low: imports os: pure [low/low.go]`,
		`low: imports top: arrows point down only [low/low.go]`,
		`next: 0 package comments, want exactly 1 []`,
		`next: imports low: arrows point down only [next/next.go]`,
		`the layers except what is not so: cap/beside/agent imports low`,
		`the layers name gone, which has no room`,
		`the rule for unsafe is stale: none of [low] imports it`,
		`the rule of the clock excepts low, which is pure`,
		`the rule of the clock is stale: low does not read it`,
		`the rule of the clock is stale: next does not read it`,
		`the rule of the clock names past, which does not exist`,
		`top: 2 package comments, want exactly 1 [top/a.go top/b.go]`,
		`top: imports the test harness harness/tool [top/a.go]`,
		`util: the name "util" says nothing about what is inside`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

func TestListedComparesBothWays(t *testing.T) {
	rooms := []string{"internal/a", "internal/b"}
	got := listed("rooms: `internal/a`, `internal/c/`; not `go build ./internal/x`", rooms, rules{})
	want := []string{"does not list `internal/b`", "lists `internal/c`, which is no package"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

// open reads a txtar archive as a file tree.
func open(t *testing.T, name string) fs.FS {
	t.Helper()
	archive, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	tree := fstest.MapFS{}
	for _, f := range archive.Files {
		tree[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	return tree
}

// TestOnlyTwoModulesNeedKubernetes keeps k8s.io/kubernetes out of the main module: a module that requires it must also
// replace its staging modules.
func TestOnlyTwoModulesNeedKubernetes(t *testing.T) {
	allowed := map[string]bool{"cmd/berth-scheduler/go.mod": true, "test/cluster/go.mod": true}
	seen := map[string]bool{}
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "go.mod" {
			return err
		}
		text, err := os.ReadFile(root + "/" + name)
		seen[name] = strings.Contains(string(text), "k8s.io/kubernetes ")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, needs := range seen {
		if needs != allowed[name] {
			t.Errorf("%s requires k8s.io/kubernetes: %v, want %v", name, needs, allowed[name])
		}
	}
	if !seen["cmd/berth-scheduler/go.mod"] || !seen["test/cluster/go.mod"] {
		t.Errorf("found %v, which lacks the modules of the scheduler", seen)
	}
}
