package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// rules are the rules that check enforces.
type rules struct {
	module   string
	maxLines int      // of a file that is not a test
	banned   []string // package names that say nothing
	harness  []string // directories of test programs, which nothing else imports
	modules  []string // directories that are modules of their own, with rules of their own
	layering
	guards []guard
	pure   pureRule
	clock  clockRule
	host   hostRule
}

// guard is an import that only some rooms may have. The path includes everything below it, unless the guard is exact.
type guard struct {
	path  string
	only  []string
	exact bool
	why   string
}

// pureRule names rooms that make decisions from values only, without reading the host or the cluster.
type pureRule struct {
	rooms   []string
	imports []string
	why     string
}

// clockRule lists the rooms that may read the clock or wait for it. All other rooms receive the time as a value.
type clockRule struct {
	// calls are the guarded functions of package time.
	calls []string
	// only maps each permitted room to the reason.
	only map[string]string
}

// hostRule says how each room below a folder reaches the host. A pure room does not. A room of the loop reads through
// internal/linux. A room beside the loop may do more.
type hostRule struct {
	under string
	// files are imports that reach files, processes or the network. Only rooms beside the loop use them.
	files []string
	// drives are folders with rooms that read or write the host. Pure rooms do not use them.
	drives []string
	// values maps packages of files and of drives to names that reach nothing; no names means all names. Pure rooms use
	// no name of files.
	values map[string][]string
	// loop are the rooms that read the host in the agent's loop, beside those that work beside it, or in a command.
	loop, beside []string
}

// pkg is the part of a directory's non-test source files that check needs.
type pkg struct {
	dir     string
	name    string
	docs    []string            // files with a package comment
	imports map[string][]string // import path -> files
	uses    map[symbol][]string // name of an imported package -> files
	texts   []string            // places that compare the text of an error
	stale   []string            // places that convert a pointer to a number outside a system call
	lines   map[string]int
}

// symbol is a name in an imported package.
type symbol struct{ from, name string }

// check returns all violations of the rules in the tree, sorted. The tree is a module at its root. It does not include
// nested modules, or directories named testdata or with a leading dot or underscore.
func check(tree fs.FS, r rules) ([]string, error) {
	pkgs, err := load(tree)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, p := range pkgs {
		found = append(found, checkShape(p, r)...)
		if r.inHarness(p.dir) {
			continue
		}
		found = append(found, checkLayers(p, r)...)
		found = append(found, checkGuards(p, r)...)
		found = append(found, checkClock(p, r)...)
		found = append(found, checkHost(p, r)...)
		for _, at := range p.texts {
			found = append(found, fmt.Sprintf("%s: compares the text of an error: use errors.Is", at))
		}
		for _, at := range p.stale {
			found = append(found, fmt.Sprintf("%s: hands a pointer as a number to a function of Go: it goes stale when the stack moves", at))
		}
	}
	found = append(found, checkTable(pkgs, r)...)
	found = append(found, checkLayering(pkgs, r)...)
	sort.Strings(found)
	return found, nil
}

// load reads every package of the tree that has non-test source files.
func load(tree fs.FS) (map[string]pkg, error) {
	pkgs := map[string]pkg{}
	err := eachSource(tree, func(name string, src []byte) error { return addFile(name, src, pkgs) })
	return pkgs, err
}

// eachSource calls visit with every non-test source file of the tree.
func eachSource(tree fs.FS, visit func(name string, src []byte) error) error {
	return fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return enter(tree, name)
		}
		if path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		src, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		return visit(name, src)
	})
}

func enter(tree fs.FS, dir string) error {
	if dir == "." {
		return nil
	}
	base := path.Base(dir)
	if base == "testdata" || base[0] == '.' || base[0] == '_' {
		return fs.SkipDir
	}
	if _, err := fs.Stat(tree, path.Join(dir, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

func addFile(name string, src []byte, pkgs map[string]pkg) error {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	dir := path.Dir(name)
	p, ok := pkgs[dir]
	if !ok {
		p = pkg{dir: dir, name: file.Name.Name, imports: map[string][]string{}, uses: map[symbol][]string{}, lines: map[string]int{}}
	}
	if hasDoc(file) {
		p.docs = append(p.docs, name)
	}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return fmt.Errorf("%s: import %s: %w", name, spec.Path.Value, err)
		}
		p.imports[imported] = append(p.imports[imported], name)
		p.addUses(file, localName(spec), imported, name)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if n == nil {
			return true
		}
		at := fmt.Sprintf("%s:%d", name, set.Position(n.Pos()).Line)
		if comparesText(n) {
			p.texts = append(p.texts, at)
		}
		if handsStale(n) {
			p.stale = append(p.stale, at)
		}
		return true
	})
	p.lines[name] = bytes.Count(src, []byte("\n"))
	pkgs[dir] = p
	return nil
}

// localName returns the name that a file uses for an imported package.
func localName(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	return path.Base(strings.Trim(spec.Path.Value, `"`))
}

// addUses records which names of an imported package a file uses.
func (p pkg) addUses(file *ast.File, local, imported, at string) {
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			used := symbol{from: imported, name: s.Sel.Name}
			if x, ok := s.X.(*ast.Ident); ok && x.Name == local && !slices.Contains(p.uses[used], at) {
				p.uses[used] = append(p.uses[used], at)
			}
		}
		return true
	})
}

// comparesText reports whether an expression makes a decision from the text of an error.
func comparesText(n ast.Node) bool {
	switch e := n.(type) {
	case *ast.BinaryExpr:
		return (e.Op == token.EQL || e.Op == token.NEQ) && (isText(e.X) || isText(e.Y))
	case *ast.CallExpr:
		f, ok := e.Fun.(*ast.SelectorExpr)
		if !ok || !slices.Contains([]string{"Contains", "HasPrefix", "HasSuffix", "EqualFold", "Index", "MatchString"}, f.Sel.Name) {
			return false
		}
		return slices.ContainsFunc(e.Args, isText)
	}
	return false
}

// handsStale reports whether a call passes uintptr(unsafe.Pointer(…)) as an argument. The compiler keeps that pointer
// valid only in calls of the system call functions of packages syscall and unix. See rule (4) of package unsafe.
func handsStale(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	if f, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains([]string{"Syscall", "Syscall6", "RawSyscall", "RawSyscall6"}, f.Sel.Name) {
		return false
	}
	return slices.ContainsFunc(call.Args, func(arg ast.Expr) bool {
		number, ok := arg.(*ast.CallExpr)
		if !ok || len(number.Args) != 1 {
			return false
		}
		name, ok := number.Fun.(*ast.Ident)
		pointer, isCall := number.Args[0].(*ast.CallExpr)
		if !ok || !isCall || name.Name != "uintptr" {
			return false
		}
		f, ok := pointer.Fun.(*ast.SelectorExpr)
		return ok && f.Sel.Name == "Pointer"
	})
}

// isText reports whether an expression is the text of an error.
func isText(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok || len(call.Args) > 0 {
		return false
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	return ok && f.Sel.Name == "Error"
}

// hasDoc reports whether the package clause has a comment with text. Build constraints and other directives are not
// text.
func hasDoc(file *ast.File) bool {
	return file.Doc != nil && strings.TrimSpace(file.Doc.Text()) != ""
}

func checkShape(p pkg, r rules) []string {
	var found []string
	if len(p.docs) != 1 {
		slices.Sort(p.docs)
		found = append(found, fmt.Sprintf("%s: %d package comments, want exactly 1 %v", p.dir, len(p.docs), p.docs))
	}
	if p.name != "main" && slices.Contains(r.banned, p.name) || slices.Contains(r.banned, path.Base(p.dir)) {
		found = append(found, fmt.Sprintf("%s: the name %q says nothing about what is inside", p.dir, p.name))
	}
	for name, lines := range p.lines {
		if lines > r.maxLines {
			found = append(found, fmt.Sprintf("%s: %d lines, at most %d", name, lines, r.maxLines))
		}
	}
	return found
}

func (r rules) inHarness(dir string) bool {
	return below(dir, r.harness...)
}

func checkGuards(p pkg, r rules) []string {
	var found []string
	for imported, files := range p.imports {
		for _, g := range r.guards {
			if g.covers(imported) && !slices.Contains(g.only, p.dir) {
				found = append(found, fmt.Sprintf("%s: imports %s: %s %v", p.dir, imported, g.why, files))
			}
		}
		if slices.Contains(r.pure.rooms, p.dir) && slices.Contains(r.pure.imports, imported) {
			found = append(found, fmt.Sprintf("%s: imports %s: %s %v", p.dir, imported, r.pure.why, files))
		}
	}
	return found
}

func checkClock(p pkg, r rules) []string {
	var found []string
	for used, files := range p.uses {
		if used.from == "time" && slices.Contains(r.clock.calls, used.name) && r.clock.only[p.dir] == "" {
			found = append(found, fmt.Sprintf("%s: time.%s: the time comes in as a value %v", p.dir, used.name, files))
		}
	}
	return found
}

// checkHost compares what a room uses with the way in which it may reach the host.
func checkHost(p pkg, r rules) []string {
	h, pure := r.host, slices.Contains(r.pure.rooms, p.dir)
	if h.under == "" || !below(p.dir, h.under) || slices.Contains(h.beside, p.dir) {
		return nil
	}
	if !pure && !slices.Contains(h.loop, p.dir) {
		return []string{fmt.Sprintf("%s: is no pure room, and ARCHITECTURE.md does not say how it reaches the host", p.dir)}
	}
	var found []string
	for imported, files := range p.imports {
		dir := strings.TrimPrefix(imported, r.module+"/")
		names, some := h.values[dir]
		file := below(dir, h.files...)
		some = some && (!file || !pure)
		if !file && (!pure || !below(dir, h.drives...)) || some && len(names) == 0 {
			continue
		}
		if !some {
			found = append(found, fmt.Sprintf("%s: imports %s, which reaches the host %v", p.dir, imported, files))
			continue
		}
		for used, files := range p.uses {
			if used.from == imported && !slices.Contains(names, used.name) {
				found = append(found, fmt.Sprintf("%s: uses %s of %s, which reaches the host %v", p.dir, used.name, imported, files))
			}
		}
	}
	return found
}

// below reports whether a slash-separated path is one of the given paths, or below one.
func below(dir string, of ...string) bool {
	return slices.ContainsFunc(of, func(one string) bool { return dir == one || strings.HasPrefix(dir, one+"/") })
}

// reads reports whether a package reads the clock.
func (c clockRule) reads(p pkg) bool {
	return slices.ContainsFunc(c.calls, func(call string) bool { return len(p.uses[symbol{"time", call}]) > 0 })
}

func (g guard) covers(imported string) bool {
	return imported == g.path || !g.exact && below(imported, g.path)
}

// checkTable finds entries of the rules that name packages which no longer exist. Without this check a renamed package
// would silently escape its rule.
func checkTable(pkgs map[string]pkg, r rules) []string {
	var found []string
	exists := func(rule, dir string) {
		if _, ok := pkgs[dir]; !ok {
			found = append(found, fmt.Sprintf("%s names %s, which does not exist", rule, dir))
		}
	}
	for _, g := range r.guards {
		for _, dir := range g.only {
			exists("the rule for "+g.path, dir)
		}
		if len(g.only) > 0 && !g.used(pkgs) {
			found = append(found, fmt.Sprintf("the rule for %s is stale: none of %v imports it", g.path, g.only))
		}
	}
	for _, dir := range r.pure.rooms {
		exists("the rule of pure rooms", dir)
		if r.clock.only[dir] != "" {
			found = append(found, fmt.Sprintf("the rule of the clock excepts %s, which is pure", dir))
		}
	}
	for dir := range r.clock.only {
		exists("the rule of the clock", dir)
		if p, ok := pkgs[dir]; ok && !r.clock.reads(p) {
			found = append(found, fmt.Sprintf("the rule of the clock is stale: %s does not read it", dir))
		}
	}
	return found
}

func (g guard) used(pkgs map[string]pkg) bool {
	for _, p := range pkgs {
		for imported := range p.imports {
			if g.covers(imported) {
				return true
			}
		}
	}
	return false
}

// listed returns the differences between the packages of the tree and the packages that a document lists in backquotes.
// It considers only names that look like a package directory of this module: `internal/x`, `cmd/x`, `api/x`.
func listed(document string, rooms []string, r rules) []string {
	named := map[string]bool{}
	for i, part := range strings.Split(document, "`") {
		if i%2 == 1 && (isRoom(part) || slices.Contains(rooms, part)) {
			named[strings.TrimSuffix(part, "/")] = true
		}
	}
	var found []string
	for _, dir := range rooms {
		if !named[dir] && !r.inHarness(dir) {
			found = append(found, fmt.Sprintf("does not list `%s`", dir))
		}
	}
	for dir := range named {
		if !slices.Contains(rooms, dir) && !slices.Contains(r.modules, dir) {
			found = append(found, fmt.Sprintf("lists `%s`, which is no package", dir))
		}
	}
	sort.Strings(found)
	return found
}

func isRoom(s string) bool {
	if strings.ContainsAny(s, " \n*{}.") {
		return false
	}
	return strings.HasPrefix(s, "internal/") || strings.HasPrefix(s, "cmd/") || strings.HasPrefix(s, "api/")
}
