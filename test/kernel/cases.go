package kernel

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// Cases are the live tests of one package, or its benchmarks.
type Cases struct {
	Package string   // Directory in the module, with slashes.
	Tests   []string // Names of the Test functions, or of the Benchmark functions if Rounds is set.
	Rounds  int      // How often a benchmark runs its loop.
}

// arguments returns the arguments of the test binary that select the cases.
func (c Cases) arguments() []string {
	if c.Rounds == 0 {
		return []string{"-test.run=" + pattern(c.Tests)}
	}
	return []string{"-test.run=^$", "-test.bench=" + pattern(c.Tests), "-test.benchtime=" + strconv.Itoa(c.Rounds) + "x"}
}

// Find returns the live tests of the module at source: the Test functions in files named
// live_test.go or *_live_test.go, by package in path order.
func Find(source string) ([]Cases, error) {
	var all []Cases
	at := map[string]int{}
	err := fs.WalkDir(os.DirFS(source), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (skipDir(name) || isModule(source, name)):
			return fs.SkipDir
		case !isLive(name):
			return nil
		}
		tests, err := testsOf(filepath.Join(source, name))
		pkg := path.Dir(name)
		if _, known := at[pkg]; !known {
			at[pkg] = len(all)
			all = append(all, Cases{Package: pkg})
		}
		all[at[pkg]].Tests = append(all[at[pkg]].Tests, tests...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for live tests: %w", err)
	}
	return all, nil
}

// skipDir reports that a directory contains no package of the module.
func skipDir(name string) bool {
	base := path.Base(name)
	return base == "testdata" || base != "." && strings.HasPrefix(base, ".")
}

// isModule reports that a directory below the source is a separate module.
func isModule(source, name string) bool {
	_, err := os.Stat(filepath.Join(source, name, "go.mod"))
	return name != "." && err == nil
}

func isLive(name string) bool {
	base := path.Base(name)
	return base == "live_test.go" || strings.HasSuffix(base, "_live_test.go")
}

// testsOf returns the names of the Test functions in one file.
func testsOf(file string) ([]string, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse live tests: %w", err)
	}
	var tests []string
	for _, decl := range parsed.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" {
			tests = append(tests, f.Name.Name)
		}
	}
	return tests, nil
}

// pattern selects exactly the named tests.
func pattern(tests []string) string { return "^(" + strings.Join(tests, "|") + ")$" }
