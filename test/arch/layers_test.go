package arch

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// layers are the folders of internal, from the top down. ARCHITECTURE.md says what each has.
func layers() [][]string {
	return [][]string{
		{"cli"}, {"doctor", "proof", "scheduler"}, {"agent"}, {"capability"}, {"node"}, {"intent"}, {"engine"}, {"linux"}, {"value"},
	}
}

// TestFoldersAreLayers requires that a package imports only packages of its own folder and of lower layers.
func TestFoldersAreLayers(t *testing.T) {
	pkgs, err := load(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	layer := func(folder string) int {
		return slices.IndexFunc(layers(), func(l []string) bool { return slices.Contains(l, folder) })
	}
	arrows := 0
	for dir, p := range pkgs {
		mine, internal := folderOf(dir)
		if !internal {
			continue
		}
		if layer(mine) < 0 {
			t.Errorf("%s is in no layer", dir)
		}
		for imported := range p.imports {
			other, internal := folderOf(strings.TrimPrefix(imported, "github.com/berth-project/berth/"))
			if !internal || other == mine {
				continue
			}
			if arrows++; layer(other) <= layer(mine) {
				t.Errorf("%s imports %s: arrows point down only", dir, imported)
			}
		}
	}
	if arrows == 0 {
		t.Error("no package imports one of another folder")
	}
}

// folderOf returns the folder of internal that has a package, and whether there is one.
func folderOf(dir string) (folder string, internal bool) {
	rest, internal := strings.CutPrefix(dir, "internal/")
	folder, _, _ = strings.Cut(rest, "/")
	return folder, internal
}
