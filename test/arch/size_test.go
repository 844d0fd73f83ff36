package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// limits bound the size of a type, because a reader has to remember the whole type at once.
type limits struct {
	fields, methods int
	module          string
	// larger maps exceptions (package directory and type name) to their larger limits.
	larger map[string]large
}

// large is the larger limit of one type or room, with the reason for the exception.
type large struct {
	fields, methods, lines int
	why                    string
}

// sizes returns the limits of this module. The limit of an exception is the present size of the type: exceptions may
// become smaller but must never grow.
func sizes() limits {
	return limits{fields: 20, methods: 40, module: house("").module, larger: map[string]large{
		"internal/capability/isolate/offline.Node": {fields: 23, why: "a report in JSON, whose objects stay flat"},
		"internal/intent/workload.Pod":             {fields: 32, why: "each fact about a pod that CPUs depend on is a field of this value; cluster.json has it flat"},
		"internal/linux/cgroup.Group":              {methods: 51, why: "a thin face over kernel files: a method or two for each file, no state between them"},
		"internal/node/cluster.Pod":                {fields: 40, why: "a workload.Pod with its identity in the cluster; cluster.json has it flat"},
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
		"place":    {"internal/capability/place/assignment", "internal/capability/place/grant", "internal/capability/place/lending", "internal/capability/place/pin", "internal/capability/place", "internal/capability/place/sharedpool"},
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

// counted holds the names of the fields and methods that a type declares, and the types that it embeds.
type counted struct {
	fields, methods map[string]bool
	embeds          []string
}

// oversized returns the types of the module that exceed the limits, and the exceptions that no type needs.
func oversized(tree fs.FS, l limits) ([]string, error) {
	types, err := countTypes(tree, l.module)
	if err != nil {
		return nil, err
	}
	var found []string
	for name := range types {
		c, may := withEmbedded(name, types), l.larger[name]
		if most := max(may.fields, l.fields); len(c.fields) > most {
			found = append(found, fmt.Sprintf("%s has %d fields, more than %d", name, len(c.fields), most))
		}
		if most := max(may.methods, l.methods); len(c.methods) > most {
			found = append(found, fmt.Sprintf("%s has %d methods, more than %d", name, len(c.methods), most))
		}
	}
	for name := range l.larger {
		if c := withEmbedded(name, types); len(c.fields) <= l.fields && len(c.methods) <= l.methods {
			found = append(found, fmt.Sprintf("%s needs no exception: %d fields, %d methods", name, len(c.fields), len(c.methods)))
		}
	}
	slices.Sort(found)
	return found, nil
}

// withEmbedded returns the members of a type, with those of the types of this module that it embeds. An embedded type
// counts as its members. A name counts once, because an outer member hides an inner member.
func withEmbedded(name string, types map[string]counted) counted {
	all := counted{fields: map[string]bool{}, methods: map[string]bool{}}
	seen := map[string]bool{}
	var add func(string)
	add = func(name string) {
		if seen[name] {
			return
		}
		seen[name] = true
		maps.Copy(all.fields, types[name].fields)
		maps.Copy(all.methods, types[name].methods)
		for _, embedded := range types[name].embeds {
			add(embedded)
		}
	}
	add(name)
	return all
}

// countTypes returns the types of non-test files, by package directory and name.
func countTypes(tree fs.FS, module string) (map[string]counted, error) {
	types := map[string]counted{}
	err := eachSource(tree, func(name string, src []byte) error {
		file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		c := counter{dir: path.Dir(name), imports: map[string]string{}, types: types}
		for _, spec := range file.Imports {
			if dir, own := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module+"/"); own {
				c.imports[localName(spec)] = dir
			}
		}
		for _, decl := range file.Decls {
			c.count(decl)
		}
		return nil
	})
	return types, err
}

// counter counts the members that one file declares.
type counter struct {
	dir     string
	imports map[string]string // local name -> directory, for packages of this module
	types   map[string]counted
}

// of returns the entry of a type of the file's package.
func (c counter) of(name string) counted {
	name = c.dir + "." + name
	if _, known := c.types[name]; !known {
		c.types[name] = counted{fields: map[string]bool{}, methods: map[string]bool{}}
	}
	return c.types[name]
}

// count adds the fields or the method of one declaration to the types of its package.
func (c counter) count(decl ast.Decl) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv != nil {
			_, name := typeName(d.Recv.List[0].Type)
			c.of(name).methods[d.Name.Name] = true
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			named, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			switch t := named.Type.(type) {
			case *ast.StructType:
				c.embed(named.Name.Name, t.Fields, c.of(named.Name.Name).fields)
			case *ast.InterfaceType:
				c.embed(named.Name.Name, t.Methods, c.of(named.Name.Name).methods)
			}
		}
	}
}

// embed adds the members of a struct or an interface to those of its type.
func (c counter) embed(outer string, list *ast.FieldList, members map[string]bool) {
	for _, f := range list.List {
		for _, name := range f.Names {
			members[name.Name] = true
		}
		if len(f.Names) > 0 {
			continue
		}
		dir, own := c.dir, true
		from, name := typeName(f.Type)
		if from != "" {
			dir, own = c.imports[from]
		}
		if !own {
			members[name] = true // a type of another module counts as one member
			continue
		}
		t := c.of(outer)
		t.embeds = append(t.embeds, dir+"."+name)
		c.types[c.dir+"."+outer] = t
	}
}

// typeName returns the name of a type, and the package that qualifies it, without pointers and type arguments.
func typeName(e ast.Expr) (from, name string) {
	switch t := e.(type) {
	case *ast.StarExpr:
		return typeName(t.X)
	case *ast.IndexExpr:
		return typeName(t.X)
	case *ast.IndexListExpr:
		return typeName(t.X)
	case *ast.SelectorExpr:
		_, from = typeName(t.X)
		return from, t.Sel.Name
	case *ast.Ident:
		return "", t.Name
	}
	return "", ""
}

// TestOversizedFindsEachFault gives oversized one fault of each kind, because a rule that never fails protects nothing.
func TestOversizedFindsEachFault(t *testing.T) {
	tree := fstest.MapFS{
		"a/a.go":      {Data: []byte("package a\ntype T struct{ x, y int; U }\ntype U struct{ z int }\nfunc (*U) A() {}\nfunc (U) B() {}\n")},
		"a/a_test.go": {Data: []byte("package a\ntype V struct{ x, y, z int }\n")},
		"b/b.go":      {Data: []byte("package b\nimport (\n\"sync\"\nother \"m/a\"\n)\ntype T struct{ *other.T; I[int]; sync.Mutex }\ntype I[E any] interface{ A(); C() }\nfunc (T) B() {}\n")},
	}
	found, err := oversized(tree, limits{fields: 2, methods: 1, module: "m", larger: map[string]large{"a.V": {fields: 3}}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"a.T has 2 methods, more than 1", "a.T has 3 fields, more than 2", "a.U has 2 methods, more than 1", "a.V needs no exception: 0 fields, 0 methods",
		"b.I has 2 methods, more than 1", "b.T has 3 methods, more than 1", "b.T has 4 fields, more than 2",
	}
	if d := cmp.Diff(want, found); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
