// Package notices collects the license texts of the modules that are linked into a Go program, for whoever ships the
// program. The linker's records name the modules, and the module cache, from which the program was built, has their
// texts. The same programs give the same notices: modules are sorted, and a text that several modules share appears
// once.
package notices

import (
	"bytes"
	"debug/buildinfo"
	"errors"
	"fmt"
	"go/build"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// ErrProgram reports a file that Go did not link.
var ErrProgram = errors.New("not a program of Go")

// ErrNone reports a module without a license text.
var ErrNone = errors.New("no license text in the module cache")

// library is the name of the standard library, as in the bill of materials.
const library = "std"

// head is the beginning of all notices.
const head = "This program contains the modules below. Each text follows the modules that it is from.\n"

// rule separates texts.
const rule = "\n--------------------------------------------------------------------------------\n"

// module is one version of a module.
type module struct{ path, version string }

// Of returns the notices of all modules in programs. modules is the directory of the module cache.
func Of(modules string, programs ...io.ReaderAt) ([]byte, error) {
	from := map[string][]string{} // the modules and files of each text
	all, err := linked(programs)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		texts := map[string]string{"LICENSE": goLicense}
		if m.path != library {
			if texts, err = textsIn(filepath.Join(modules, filepath.FromSlash(escaped(m.path))+"@"+escaped(m.version))); err != nil {
				return nil, fmt.Errorf("license of %s %s: %w", m.path, m.version, err)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(texts)) {
			from[texts[name]] = append(from[texts[name]], m.path+" "+m.version+" "+name)
		}
	}
	var b bytes.Buffer
	b.WriteString(head)
	for _, text := range slices.SortedFunc(maps.Keys(from), func(a, b string) int { return slices.Compare(from[a], from[b]) }) {
		b.WriteString(rule + "\n" + strings.Join(from[text], "\n") + "\n\n" + text + "\n")
	}
	return b.Bytes(), nil
}

// Cache returns the directory of this user's module cache, empty if there is none.
func Cache() string {
	dir := os.Getenv("GOMODCACHE")
	if dir == "" {
		dir = filepath.Join(build.Default.GOPATH, "pkg", "mod")
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return ""
	}
	return dir
}

// linked returns the modules that are linked into programs, sorted. A directory of the tree that replaces a module is
// Berth's own and has no sum.
func linked(programs []io.ReaderAt) ([]module, error) {
	seen := map[module]bool{}
	for _, program := range programs {
		info, err := buildinfo.Read(program)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrProgram, err)
		}
		seen[module{library, strings.TrimPrefix(info.GoVersion, "go")}] = true
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			if m.Sum != "" {
				seen[module{m.Path, m.Version}] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(seen), compare), nil
}

func compare(a, b module) int {
	if c := strings.Compare(a.path, b.path); c != 0 {
		return c
	}
	return strings.Compare(a.version, b.version)
}

// textsIn returns the texts of a module by the name of their file. Directories of third parties have texts of their own,
// except those of tests.
func textsIn(dir string) (map[string]string, error) {
	named := regexp.MustCompile(`(?i)^(licen[sc]es?|notice|copying|copyright|patents|unlicense)([-.][a-z0-9.+-]*)?$`)
	texts, files := map[string]string{}, os.DirFS(dir)
	err := fs.WalkDir(files, ".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == "vendor" || strings.HasPrefix(entry.Name(), "_")):
			return fs.SkipDir
		case entry.IsDir() || !named.MatchString(entry.Name()) || path.Ext(entry.Name()) == ".go":
			return nil
		}
		text, err := fs.ReadFile(files, file)
		texts[file] = strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n"))
		return err //nolint:wrapcheck // textsIn adds what it read
	})
	if err != nil {
		return nil, fmt.Errorf("read module: %w", err)
	}
	if len(texts) == 0 {
		return nil, ErrNone
	}
	return texts, nil
}

// escaped is a path or a version as the module cache writes it: a capital letter is a small one after "!".
func escaped(name string) string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte('!')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// goLicense is the license of Go, whose library each program contains. The module cache need not have it.
const goLicense = `Copyright 2009 The Go Authors.

Redistribution and use in source and binary forms, with or without
modification, are permitted provided that the following conditions are
met:

   * Redistributions of source code must retain the above copyright
notice, this list of conditions and the following disclaimer.
   * Redistributions in binary form must reproduce the above
copyright notice, this list of conditions and the following disclaimer
in the documentation and/or other materials provided with the
distribution.
   * Neither the name of Google LLC nor the names of its
contributors may be used to endorse or promote products derived from
this software without specific prior written permission.

THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS AND CONTRIBUTORS
"AS IS" AND ANY EXPRESS OR IMPLIED WARRANTIES, INCLUDING, BUT NOT
LIMITED TO, THE IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS FOR
A PARTICULAR PURPOSE ARE DISCLAIMED. IN NO EVENT SHALL THE COPYRIGHT
OWNER OR CONTRIBUTORS BE LIABLE FOR ANY DIRECT, INDIRECT, INCIDENTAL,
SPECIAL, EXEMPLARY, OR CONSEQUENTIAL DAMAGES (INCLUDING, BUT NOT
LIMITED TO, PROCUREMENT OF SUBSTITUTE GOODS OR SERVICES; LOSS OF USE,
DATA, OR PROFITS; OR BUSINESS INTERRUPTION) HOWEVER CAUSED AND ON ANY
THEORY OF LIABILITY, WHETHER IN CONTRACT, STRICT LIABILITY, OR TORT
(INCLUDING NEGLIGENCE OR OTHERWISE) ARISING IN ANY WAY OUT OF THE USE
OF THIS SOFTWARE, EVEN IF ADVISED OF THE POSSIBILITY OF SUCH DAMAGE.`
