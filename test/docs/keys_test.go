package docs

import (
	"cmp"
	"go/ast"
	"go/token"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// constant is a constant of Go with its comment.
type constant struct {
	name, value, doc string
	// kind is the declared type, "" for none.
	kind string
	// number says that the value is no string.
	number bool
}

// declared are the constants and types of some packages.
type declared struct {
	// constants are in the order of the source.
	constants []constant
	types     map[string]*ast.TypeSpec
	// docs are the comments of the types.
	docs map[string]string
	// lists are the types of which a function, by its name, returns all values.
	lists map[string]string
	// shown are the types with a section on the page.
	shown map[string]bool
	// fieldNames are the names in JSON of the fields of these types, by their names in Go. Words with one capital, which
	// a sentence may begin with, are not in it.
	fieldNames map[string]string
}

// keySection is a table of keys.
type keySection struct {
	title, about string
	// prefix begins the names of the constants, and kind is their type.
	prefix, kind string
}

// keySections returns the tables of the page of keys. The last is about ConfigMaps, which have no values of their own.
func keySections() []keySection {
	return []keySection{
		{"Annotations", "Annotations of a pod. A [workload file](node.md#without-kubernetes) takes those with which a pod asks.", "Annotation", ""},
		{"Labels", "Labels of a pod, or of a workload file.", "Label", ""},
		{"Labels of nodes", "An administrator sets these labels on a node, for the pods with exclusive CPUs there.", "NodeLabel", ""},
		{"Keys of ConfigMaps", "These are keys of the data of [the ConfigMaps](#configmaps) below.", "Key", ""},
		{
			"ConfigMaps", "The agents read a peer's ConfigMap only if `readPeerConfig` of the [agent's file](agent-file.md) lists the peer." +
				" If several of the first three ConfigMaps have a key, the first of them applies.", "", "Name",
		},
	}
}

// keyDeclarations returns what the packages with the keys declare. The types that comments of keys name are shown, and
// the types of their fields.
func keyDeclarations(t *testing.T) *declared {
	t.Helper()
	d := &declared{types: map[string]*ast.TypeSpec{}, docs: map[string]string{}, lists: map[string]string{}, shown: map[string]bool{}, fieldNames: map[string]string{}}
	for _, dir := range []string{"api/v1alpha1", "internal/intent/strategy"} {
		inspect(t, dir, func(_ string, n ast.Node) {
			switch n := n.(type) {
			case *ast.GenDecl:
				d.add(n)
			case *ast.FuncDecl:
				if kind, ok := listed(n); ok {
					d.lists[n.Name.Name] = kind
				}
			}
		})
	}
	for _, s := range keySections() {
		for _, c := range d.keys(s) {
			for _, word := range goNames().FindAllString(c.doc, -1) {
				d.reach(unqualified(word))
			}
		}
	}
	return d
}

// add records the constants and types of a declaration.
func (d *declared) add(decl *ast.GenDecl) {
	for _, spec := range decl.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			d.types[spec.Name.Name] = spec
			d.docs[spec.Name.Name] = commentOf(spec.Doc, decl)
		case *ast.ValueSpec:
			if decl.Tok == token.CONST && len(spec.Names) == 1 && len(spec.Values) == 1 {
				d.addConstant(spec, commentOf(spec.Doc, decl))
			}
		}
	}
}

// addConstant records a constant with a literal as its value.
func (d *declared) addConstant(spec *ast.ValueSpec, doc string) {
	lit, ok := spec.Values[0].(*ast.BasicLit)
	if !ok {
		return
	}
	c := constant{name: spec.Names[0].Name, value: lit.Value, doc: doc, number: true}
	if value, ok := text(lit, nil); ok {
		c.value, c.number = value, false
	}
	if kind, ok := spec.Type.(*ast.Ident); ok {
		c.kind = kind.Name
	}
	d.constants = append(d.constants, c)
}

// commentOf returns the comment of a declared name. A declaration without parentheses has the comment itself.
func commentOf(own *ast.CommentGroup, decl *ast.GenDecl) string {
	if own == nil && !decl.Lparen.IsValid() {
		own = decl.Doc
	}
	return strings.Join(strings.Fields(own.Text()), " ")
}

// listed returns the type T of a function without parameters that returns []T.
func listed(f *ast.FuncDecl) (string, bool) {
	if f.Recv != nil || f.Type.Params.NumFields() != 0 || f.Type.Results.NumFields() != 1 {
		return "", false
	}
	list, ok := f.Type.Results.List[0].Type.(*ast.ArrayType)
	if !ok {
		return "", false
	}
	kind, ok := list.Elt.(*ast.Ident)
	if !ok {
		return "", false
	}
	return kind.Name, true
}

// goNames matches the exported names in a comment, and ordinary words with a capital letter.
func goNames() *regexp.Regexp { return regexp.MustCompile(`\b(?:v1alpha1\.)?[A-Z]\w+`) }

func unqualified(name string) string { return strings.TrimPrefix(name, "v1alpha1.") }

// keys returns the constants of a table.
func (d *declared) keys(s keySection) []constant {
	var found []constant
	for _, c := range d.constants {
		if c.kind == s.kind && strings.HasPrefix(c.name, s.prefix) {
			found = append(found, c)
		}
	}
	return found
}

// isKey reports whether a constant is in one of the tables.
func (d *declared) isKey(c constant) bool {
	return slices.ContainsFunc(keySections(), func(s keySection) bool { return slices.Contains(d.keys(s), c) })
}

// find returns the constant of a name.
func (d *declared) find(name string) (constant, bool) {
	i := slices.IndexFunc(d.constants, func(c constant) bool { return c.name == name })
	if i < 0 {
		return constant{}, false
	}
	return d.constants[i], true
}

// values returns the constants of a type.
func (d *declared) values(kind string) []constant {
	return slices.DeleteFunc(slices.Clone(d.constants), func(c constant) bool { return c.kind != kind })
}

// reach shows a type, and the types of its fields.
func (d *declared) reach(name string) {
	spec, known := d.types[name]
	if !known || d.shown[name] {
		return
	}
	d.shown[name] = true
	form, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	maps.Copy(d.fieldNames, fieldNames(form))
	for _, f := range form.Fields.List {
		ast.Inspect(f.Type, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				d.reach(id.Name)
			}
			_, foreign := n.(*ast.SelectorExpr)
			return !foreign
		})
	}
}

// fieldNames returns the names in JSON of the fields of a structure, by their names in Go, without words with one
// capital.
func fieldNames(form *ast.StructType) map[string]string {
	all := map[string]string{}
	for _, f := range form.Fields.List {
		for _, n := range f.Names {
			if regexp.MustCompile(`[a-z][A-Z]|QOS$`).MatchString(n.Name) {
				all[n.Name] = jsonName(f)
			}
		}
	}
	return all
}

// printed returns the value as the page shows it.
func (c constant) printed() string {
	if c.number {
		return c.value
	}
	return "`" + c.value + "`"
}

func sectionLink(name string) string { return "[" + name + "](#" + strings.ToLower(name) + ")" }

// prose returns a comment as a text of the page: without the name that it begins with, with the values of constants,
// with links to types, and with the names of fields in JSON, where no field is nil. In a comment of a structure, or of
// its fields, a name is that of a field in own before it is that of a type.
func (d *declared) prose(name, doc string, own map[string]string) string {
	doc = regexp.MustCompile(`^`+name+`(?: is\b| are\b|:)? `).ReplaceAllString(doc, "")
	doc = goNames().ReplaceAllStringFunc(doc, func(word string) string {
		word = unqualified(word)
		c, known := d.find(word)
		switch {
		case known:
			return c.printed()
		case own[word] != "":
			return "`" + own[word] + "`"
		case d.shown[word]:
			return sectionLink(word)
		case d.shown[d.lists[word]]:
			return "the values of " + sectionLink(d.lists[word])
		case d.fieldNames[word] != "":
			return "`" + d.fieldNames[word] + "`"
		}
		return word
	})
	if doc == "" {
		return "-"
	}
	doc = regexp.MustCompile(`\bnil\b`).ReplaceAllString(doc, "missing")
	return strings.ToUpper(doc[:1]) + doc[1:]
}

// allowed returns the values of a key: those of the types and constants that its comment names, else those of the other
// key that it names. It is empty if the comment names nothing.
func (d *declared) allowed(key constant) string {
	var all []string
	same := ""
	for _, word := range goNames().FindAllString(key.doc, -1) {
		word = unqualified(word)
		c, known := d.find(word)
		switch values := d.values(word); {
		case c.name == key.name:
		case known && d.isKey(c):
			same = "as " + c.printed()
		case known:
			all = append(all, c.printed())
		case len(values) > 0:
			for _, v := range values {
				all = append(all, v.printed())
			}
		case d.shown[word]:
			all = append(all, sectionLink(word))
		}
	}
	if len(all) == 0 {
		return same
	}
	return strings.Join(all, ", ")
}

// keysPage lists all keys, and the types of their values.
func keysPage(t *testing.T) string {
	t.Helper()
	d := keyDeclarations(t)
	var b strings.Builder
	b.WriteString("# Keys\n\n" + generated + `
These are all keys of pods, nodes and ConfigMaps that Berth reads or writes. The texts are the comments of the source.
[Scheduling](scheduling.md), [burst](burst.md), [isolate](isolate.md) and [memory](memory.md) say how to use the keys. [Migration](migration.md) compares them with Koordinator and ACK.
`)
	for _, s := range keySections() {
		keys := d.keys(s)
		if len(keys) == 0 {
			t.Errorf("%s: no constant", s.title)
		}
		b.WriteString("\n## " + s.title + "\n\n" + s.about + "\n\n")
		if s.kind != "" {
			b.WriteString(d.meanings("ConfigMap", keys))
			continue
		}
		b.WriteString(row("Key", "Meaning", "Values") + "|---|---|---|\n")
		for _, c := range keys {
			allowed := d.allowed(c)
			if allowed == "" {
				t.Errorf("the comment of %s names no type, no value and no other key", c.name)
			}
			b.WriteString(row(c.printed(), d.prose(c.name, c.doc, nil), allowed))
		}
	}
	b.WriteString("\n## Types\n\nA value with fields is JSON.\n")
	for _, name := range slices.Sorted(maps.Keys(d.shown)) {
		form, isStruct := d.types[name].Type.(*ast.StructType)
		var own map[string]string
		if isStruct {
			own = fieldNames(form)
		}
		b.WriteString("\n### " + name + "\n\n" + d.prose(name, d.docs[name], own) + "\n\n")
		if isStruct {
			b.WriteString(d.fields(form, own))
			continue
		}
		b.WriteString(d.meanings("Value", d.values(name)))
	}
	return b.String()
}

// meanings returns a table of constants.
func (d *declared) meanings(title string, all []constant) string {
	rows := row(title, "Meaning") + "|---|---|\n"
	for _, c := range all {
		rows += row(c.printed(), d.prose(c.name, c.doc, nil))
	}
	return rows
}

// fields returns a table of the fields of a structure. Fields without a comment share the row of the field above.
func (d *declared) fields(form *ast.StructType, own map[string]string) string {
	var cells [][]string // names, types, meaning
	for _, f := range form.Fields.List {
		kind := d.jsonType(f.Type)
		if len(f.Names) == 0 {
			cells = append(cells, []string{"-", kind, "All of its fields."})
			continue
		}
		name := "`" + jsonName(f) + "`"
		if f.Doc != nil || len(cells) == 0 {
			cells = append(cells, []string{name, kind, d.prose(f.Names[0].Name, strings.Join(strings.Fields(f.Doc.Text()), " "), own)})
			continue
		}
		last := cells[len(cells)-1]
		last[0] += ", " + name
		if !slices.Contains(strings.Split(last[1], ", "), kind) {
			last[1] += ", " + kind
		}
	}
	rows := row("Field", "Type", "Meaning") + "|---|---|---|\n"
	for _, c := range cells {
		rows += row(c...)
	}
	return rows
}

// jsonName returns the name of a field in JSON.
func jsonName(f *ast.Field) string {
	if f.Tag == nil {
		return f.Names[0].Name
	}
	tag, err := strconv.Unquote(f.Tag.Value)
	if err != nil {
		return f.Tag.Value // no such tag compiles
	}
	name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
	return name
}

// jsonType returns the form of a Go type in JSON.
func (d *declared) jsonType(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return d.jsonType(e.X)
	case *ast.ArrayType:
		return "list of " + d.jsonType(e.Elt)
	case *ast.MapType:
		if value, ok := e.Value.(*ast.Ident); ok && value.Name == "any" {
			return "object"
		}
		return "object of " + d.jsonType(e.Value)
	case *ast.SelectorExpr:
		foreign := map[string]string{"Time": "time, RFC 3339", "LabelSelector": "label selector of Kubernetes"}
		return cmp.Or(foreign[e.Sel.Name], e.Sel.Name)
	case *ast.Ident:
		known := map[string]string{"bool": "boolean", "int": "number", "int64": "number", "string": "text", "any": "number or text"}
		switch {
		case d.shown[e.Name]:
			return sectionLink(e.Name)
		case known[e.Name] != "":
			return known[e.Name]
		}
		return e.Name
	}
	return "-"
}

// TestMigrationHasEachKey checks that the page about migration names each key and ConfigMap that another program
// defined.
func TestMigrationHasEachKey(t *testing.T) {
	d, page := keyDeclarations(t), documents(t)["docs/migration.md"]
	foreign := 0
	for _, s := range keySections() {
		for _, c := range d.keys(s) {
			if c.name == "KeyState" || c.name == "BerthConfig" || strings.HasPrefix(c.value, "berth.dev/") {
				continue
			}
			name := c.value
			if _, own, found := strings.Cut(c.value, "/"); found && s.kind != "" {
				name = own // a ConfigMap without its namespace
			}
			foreign++
			if !regexp.MustCompile("`" + regexp.QuoteMeta(name) + "[`: ]").MatchString(page) {
				t.Errorf("docs/migration.md has no `%s`", name)
			}
		}
	}
	if foreign < 15 {
		t.Errorf("%d keys of other programs", foreign)
	}
}
