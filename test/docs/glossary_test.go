package docs

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// TestGlossaryNamesPackages checks that the glossary names each package of internal once, and no other package.
func TestGlossaryNamesPackages(t *testing.T) {
	named := map[string]int{}
	for _, match := range regexp.MustCompile("`(internal/[^`]+)`").FindAllStringSubmatch(documents(t)["docs/glossary.md"], -1) {
		named[match[1]]++
	}
	packages := map[string]bool{}
	err := fs.WalkDir(os.DirFS(root), "internal", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == "testdata":
			return fs.SkipDir
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			packages[path.Dir(name)] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range packages {
		if named[name] != 1 {
			t.Errorf("the glossary names %s %d times, not once", name, named[name])
		}
	}
	for name := range named {
		if !packages[name] {
			t.Errorf("the glossary names %s, which is no package", name)
		}
	}
}
