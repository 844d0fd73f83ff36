package manifest_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/intent/manifest"
)

// TestProfileLines checks that a problem names the line of its field, or of the enclosing field.
func TestProfileLines(t *testing.T) {
	const head = "# about\n---\napiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: p}\nspec:\n"
	for name, tt := range map[string]struct{ text, want string }{
		"field":           {head + "  settings:\n    fair.slice: [1]\n", "p.yaml:8: field spec.settings[fair.slice]: value [1]"},
		"unknown":         {head + "  inherit: a\n  setings: {}\n", "p.yaml:8: field spec.setings: value {}: allowed: only the fields"},
		"element":         {head + "  units:\n  - {unit: a.service, cpus: '0'}\n  - {unit: b}\n", "p.yaml:9: field spec.units[1].unit: value \"b\""},
		"missing":         {head + "  units:\n  - {cpus: '0'}\n", "p.yaml:8: field spec.units[0].unit: missing"},
		"of the document": {"apiVersion: berth.dev/v1alpha1\nkind: Workload\nmetadata: {name: p}\n", "p.yaml:2: field kind: value \"Workload\": allowed: Profile"},
		"no YAML":         {head + "  settings: {a\n", "p.yaml: invalid input"},
		"twice":           {head + "  boot: []\n  boot: []\n", "already set in map"},
		"two documents":   {head + "  boot: []\n---\nkind: Profile\n", "p.yaml: invalid input: more than one YAML document"},
		"empty":           {"", "p.yaml: field apiVersion: missing"},
		"no text":         {"\x00", "p.yaml: invalid input: not UTF-8 text"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := manifest.ParseProfile("p.yaml", []byte(tt.text))
			if err == nil || !errors.Is(err, v1alpha1.ErrInvalid) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestLoadProfile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "p.yaml")
	if _, err := manifest.LoadProfile(file); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := manifest.LoadProfile(dir); !errors.Is(err, v1alpha1.ErrInvalid) {
		t.Error(err)
	}
	text := "apiVersion: berth.dev/v1alpha1\nkind: Profile\nmetadata: {name: p}\nspec: {}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if p, err := manifest.LoadProfile(file); err != nil || p.Profile.Name != "p" {
		t.Errorf("%+v, %v", p, err)
	}
}

// FuzzParseProfile checks that no text makes the line reader fail or hang.
func FuzzParseProfile(f *testing.F) {
	f.Add("spec: {settings: {a: {value: 1}}}\n")
	f.Add("a: &a [*a]\n")
	f.Add(strings.Repeat("{a: ", 100))
	f.Fuzz(func(t *testing.T, text string) {
		p, err := manifest.ParseProfile("p.yaml", []byte(text))
		if err != nil && !errors.Is(err, v1alpha1.ErrInvalid) {
			t.Errorf("%v is no class of its own", err)
		}
		p.Locate(v1alpha1.FieldErrors{{Field: "spec.units[7].cpus"}})
	})
}
