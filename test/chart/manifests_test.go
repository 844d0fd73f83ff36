package chart

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// directory has the manifests for kubectl apply -f: links to the files of deploy, as the chart has them.
const directory = "../../manifests"

// applied returns the objects of a directory that kubectl apply -f takes, without those of its subdirectories. Each
// file must be a link to a file of deploy, so that there is no second copy of an object.
func applied(t *testing.T, dir string) map[string]object {
	t.Helper()
	base, err := filepath.EvalSymlinks(deploy)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]object{}
	for _, entry := range entries {
		if entry.IsDir() {
			continue
		}
		name := filepath.Join(dir, entry.Name())
		target, err := filepath.EvalSymlinks(name)
		if err != nil {
			t.Fatal(err)
		}
		if inside, err := filepath.Rel(base, target); err != nil || strings.HasPrefix(inside, "..") || filepath.Ext(name) != ".yaml" {
			t.Errorf("%s is %s, want a link name.yaml to a file of deploy: %v", name, target, err)
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects(t, text) {
			if _, twice := all[o.key()]; twice {
				t.Errorf("%s is there twice", o.key())
			}
			all[o.key()] = o
		}
	}
	return all
}

// TestDirectoriesAreTheChart compares the two directories with the chart's objects, except the hooks, for which kubectl
// has no order. The first directory has what the second needs: the namespaces and the definition of NodeTopology.
func TestDirectoriesAreTheChart(t *testing.T) {
	setup, rest := applied(t, filepath.Join(directory, "setup")), applied(t, directory)
	want := render(t, newest, "kube-system", "")
	without := hooks(want)
	unset(t, want)
	first := map[string]object{}
	for key, o := range want {
		kind, _, _ := strings.Cut(key, " ")
		switch {
		case slices.Contains(without, key):
			delete(want, key)
		case kind == "Namespace" || kind == "CustomResourceDefinition":
			first[key] = o
			delete(want, key)
		}
	}
	if diff := cmp.Diff(first, setup); diff != "" {
		t.Errorf("manifests/setup (-chart +manifests):\n%s", diff)
	}
	if diff := cmp.Diff(want, rest); diff != "" {
		t.Errorf("manifests (-chart +manifests):\n%s", diff)
	}
}
