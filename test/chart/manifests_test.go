package chart

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// directory has the manifests for kubectl apply -f: links to the files of deploy, as TestKustomizations of test/deploy
// requires, so that there is no second copy of an object.
const directory = "../../manifests"

// applied returns the objects of a directory that kubectl apply -f takes, without those of its subdirectories.
func applied(t *testing.T, dir string) map[string]object {
	t.Helper()
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
		if filepath.Ext(name) != ".yaml" {
			t.Errorf("%s: want names that end in .yaml", name)
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
