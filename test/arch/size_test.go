package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// limits bound the size of a type, because a reader has to remember the whole type at once.
type limits struct {
	fields, methods int
	// larger maps exceptions (package directory and type name) to their larger limits.
	larger map[string]large
}

// large is the larger limit of one type or room, with the reason for the exception.
type large struct {
	fields, methods, lines int
	why                    string
}

// sizes returns the limits of this module. The exceptions may become smaller but must never grow.
func sizes() limits {
	return limits{fields: 20, methods: 40, larger: map[string]large{
		"internal/capability/place/alloc.Scratch": {fields: 25, methods: 91, why: "the search is one state; it is divided when memory and devices enter it"},
		"internal/linux/cgroup.Group":             {methods: 51, why: "a thin face over kernel files: a method or two for each file, no state between them"},
	}}
}

func TestTypesStaySmall(t *testing.T) {
	found, err := oversized(os.DirFS(root), sizes())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		t.Error(f)
	}
}

// mostLines limits a room of a capability, in lines without tests, so that a reader can read it in one sitting.
const mostLines = 1500

// roomsOf maps the name of each capability to the rooms that only it uses.
func roomsOf() map[string][]string {
	return map[string][]string{
		"burst":    {"internal/capability/burst", "internal/capability/burst/credit", "internal/capability/burst/follower", "internal/capability/burst/quota"},
		"isolate":  {"internal/capability/isolate/cookies", "internal/capability/isolate", "internal/capability/isolate/offline"},
		"localize": {"internal/capability/localize/locality", "internal/capability/localize"},
		"place":    {"internal/capability/place/assignment", "internal/capability/place/grant", "internal/capability/place/lending", "internal/capability/place/pin", "internal/capability/place", "internal/capability/isolate/sharedpool"},
		"tune":     {"internal/capability/tune/drift"},
	}
}

// larger returns the rooms of capabilities that may have more lines than mostLines.
func larger() map[string]large {
	return map[string]large{
		"internal/capability/place": {lines: 3000, why: "which pod has which CPUs is one state, and every rule of it compares all pods"},
	}
}

func TestRoomsOfCapabilitiesStaySmall(t *testing.T) {
	lines := map[string]int{}
	err := eachSource(os.DirFS(root), func(name string, src []byte) error {
		lines[path.Dir(name)] += bytes.Count(src, []byte("\n"))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, rooms := range roomsOf() {
		sum := 0
		for _, room := range rooms {
			sum += lines[room]
			if most := max(larger()[room].lines, mostLines); lines[room] > most || lines[room] == 0 {
				t.Errorf("capability %s: %s has %d lines without tests, more than %d", name, room, lines[room], most)
			}
		}
		t.Logf("%s has %d lines", name, sum)
	}
	for room := range larger() {
		if lines[room] <= mostLines {
			t.Errorf("%s needs no exception: %d lines", room, lines[room])
		}
	}
}

// counted holds the numbers of fields and methods that a package declares for a type.
type counted struct{ fields, methods int }

// oversized returns the types of the module that exceed the limits, and the exceptions that no type needs.
func oversized(tree fs.FS, l limits) ([]string, error) {
	types, err := countTypes(tree)
	if err != nil {
		return nil, err
	}
	var found []string
	for name, c := range types {
		may := l.larger[name]
		if most := max(may.fields, l.fields); c.fields > most {
			found = append(found, fmt.Sprintf("%s has %d fields, more than %d", name, c.fields, most))
		}
		if most := max(may.methods, l.methods); c.methods > most {
			found = append(found, fmt.Sprintf("%s has %d methods, more than %d", name, c.methods, most))
		}
	}
	for name := range l.larger {
		if c := types[name]; c.fields <= l.fields && c.methods <= l.methods {
			found = append(found, fmt.Sprintf("%s needs no exception: %d fields, %d methods", name, c.fields, c.methods))
		}
	}
	slices.Sort(found)
	return found, nil
}

// countTypes returns the struct types of non-test files, by package directory and name.
func countTypes(tree fs.FS) (map[string]counted, error) {
	types := map[string]counted{}
	err := eachSource(tree, func(name string, src []byte) error {
		file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			count(decl, path.Dir(name)+".", types)
		}
		return nil
	})
	return types, err
}

// count adds the fields or the method of one declaration to the types of its package.
func count(decl ast.Decl, prefix string, types map[string]counted) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return
		}
		c := types[prefix+receiver(d.Recv.List[0].Type)]
		c.methods++
		types[prefix+receiver(d.Recv.List[0].Type)] = c
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			named, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			if s, ok := named.Type.(*ast.StructType); ok {
				c := types[prefix+named.Name.Name]
				c.fields = fieldsOf(s)
				types[prefix+named.Name.Name] = c
			}
		}
	}
}

func fieldsOf(s *ast.StructType) int {
	n := 0
	for _, f := range s.Fields.List {
		n += max(len(f.Names), 1) // an embedded field has no name
	}
	return n
}

// receiver returns the name of a method's type.
func receiver(e ast.Expr) string {
	switch t := e.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}

// TestOversizedFindsEachFault gives oversized one fault of each kind, because a rule that never fails protects nothing.
func TestOversizedFindsEachFault(t *testing.T) {
	tree := fstest.MapFS{
		"a/a.go":      {Data: []byte("package a\ntype T struct{ x, y int; U }\ntype U struct{}\nfunc (*U) A() {}\nfunc (U) B() {}\n")},
		"a/a_test.go": {Data: []byte("package a\ntype V struct{ x, y, z int }\n")},
	}
	found, err := oversized(tree, limits{fields: 2, methods: 1, larger: map[string]large{"a.V": {fields: 3}}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a.T has 3 fields, more than 2", "a.U has 2 methods, more than 1", "a.V needs no exception: 0 fields, 0 methods"}
	if d := cmp.Diff(want, found); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
