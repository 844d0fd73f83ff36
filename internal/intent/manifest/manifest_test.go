package manifest

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	yaml "go.yaml.in/yaml/v2"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/intent/workload"
)

const good = "apiVersion: berth.dev/v1alpha1\nkind: Workload\nmetadata: {name: redis}\nspec: {cgroup: a}\n"

func TestLoadConfigPaths(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "agent.yaml")
	write(t, path, "workloadDir: workloads\nstateDir: ../state\n")
	cfg, err := LoadConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(dir, "workloads"); cfg.WorkloadDir != want {
		t.Errorf("workloadDir %s, want %s", cfg.WorkloadDir, want)
	}
	if want := filepath.Join(filepath.Dir(dir), "state"); cfg.StateDir != want {
		t.Errorf("stateDir %s, want %s", cfg.StateDir, want)
	}
}

// TestStateDir checks that the state directory of a file is known even if the file is refused, unless it names none.
func TestStateDir(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, want string }{
		"sound":             {"workloadDir: w\nstateDir: /srv/berth\n", "/srv/berth"},
		"relative":          {"stateDir: state # here\n", "DIR/state"},
		"a slip":            {"stateDir: \"/srv/berth\"\nlisten: 5\nslip: true\n", "/srv/berth"},
		"none":              {"slip: true\n", ""},
		"no YAML":           {"listen: [\nstateDir: '/srv/berth' # here\n", "/srv/berth"},
		"no YAML, and none": {"listen: [\n  stateDir: /srv/berth\n", ""},
		"two documents":     {"workloadDir: w\n---\nstateDir: /srv/berth\n", "/srv/berth"},
		"no text":           {"stateDir: /srv/berth\n\x00", ""},
		"of another type":   {"stateDir: [/srv/berth]\n", ""},
		"named and empty":   {"stateDir: ''\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "agent.yaml")
			if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, known := StateDir(path)
			if want := strings.Replace(test.want, "DIR", dir, 1); got != want || known != (want != "") {
				t.Errorf("%q, %v, want %q", got, known, want)
			}
		})
	}
	if got, known := StateDir(filepath.Join(t.TempDir(), "missing")); known {
		t.Errorf("a missing file: %q", got)
	}
}

func TestLoadConfigMissing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.yaml")
	_, err := LoadConfig(path)
	if !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, v1alpha1.ErrInvalid) {
		t.Fatalf("error %v, want a missing file that is bad input", err)
	}
	for _, part := range []string{path, "berth agent --print-config"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %s", err, part)
		}
	}
}

func TestUnreadableFiles(t *testing.T) {
	tests := []struct {
		name string
		make func(t *testing.T, path string)
		want error
	}{
		{"directory", func(t *testing.T, path string) { check(t, os.Mkdir(path, 0o700)) }, errNotRegular},
		{"pipe", func(t *testing.T, path string) { check(t, syscall.Mkfifo(path, 0o600)) }, errNotRegular},
		{"large", func(t *testing.T, path string) { write(t, path, good+strings.Repeat("#", maxFile)) }, errTooLarge},
		{"Latin-1", func(t *testing.T, path string) { write(t, path, good+"# \xe9\n") }, errNotText},
		{"UTF-16", func(t *testing.T, path string) { write(t, path, "\xff\xfea\x00:\x00") }, errNotText},
		{"line separator", func(t *testing.T, path string) { write(t, path, good+"# \u2028---\n") }, errNotText},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.yaml")
			test.make(t, path)
			if _, err := LoadConfig(path); !errors.Is(err, test.want) || !errors.Is(err, v1alpha1.ErrInvalid) {
				t.Errorf("error %v, want %v as bad input", err, test.want)
			}
			if test.name == "directory" {
				return // a directory in a directory is no workload file
			}
			loaded, err := LoadWorkloads(filepath.Dir(path), Before{}, administrator())
			check(t, err)
			if len(loaded.Problems) != 1 || !errors.Is(loaded.Problems[0].Err, test.want) {
				t.Errorf("problems %v, want one %v", loaded.Problems, test.want)
			}
		})
	}
}

func TestLoadWorkloadsFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".#a.yaml", ".a.yaml.swp", "a.yaml~", "#a.yaml#", "a.yaml.bak", "a.json", "README", "4913"} {
		write(t, filepath.Join(dir, name), "not: a workload")
	}
	check(t, os.Mkdir(filepath.Join(dir, "sub.yaml"), 0o700))
	write(t, filepath.Join(dir, "b.yml"), strings.Replace(good, "redis", "b", 1))
	write(t, filepath.Join(dir, "c.yaml"), "\ufeff"+strings.ReplaceAll(strings.NewReplacer("redis", "c", "cgroup: a", "cgroup: c").Replace(good), "\n", "\r\n"))
	check(t, os.Symlink("gone", filepath.Join(dir, "d.yaml")))
	loaded, err := LoadWorkloads(dir, Before{}, administrator())
	check(t, err)
	if diff := cmp.Diff("ready b\nready c\n", report(loaded)); diff != "" {
		t.Errorf("loaded (-want +got):\n%s", diff)
	}
}

func TestLoadWorkloadsConflictAcrossFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), good)
	write(t, filepath.Join(dir, "b.yaml"), good)
	loaded, err := LoadWorkloads(dir, Before{}, administrator())
	check(t, err)
	if len(loaded.Ready) != 0 || len(loaded.Pending) != 2 {
		t.Fatalf("loaded %s", report(loaded))
	}
	for i, other := range []string{"b.yaml", "a.yaml"} {
		reason := loaded.Pending[i].Reason
		if !errors.Is(reason, ErrConflict) || !strings.Contains(reason.Error(), other) || !strings.Contains(reason.Error(), "name redis, cgroup a") {
			t.Errorf("reason %q, want a conflict that names %s", reason, other)
		}
	}
}

// TestSlipsUnsettleNobody checks that a copy of a file, or a mistake in a file, leaves the workloads that were in
// effect before unchanged. Without earlier workloads, both wait.
func TestSlipsUnsettleNobody(t *testing.T) {
	second := strings.NewReplacer("redis", "other", "cgroup: a", "cgroup: b").Replace(good)
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"a copy":                       {map[string]string{"a.yaml": good, "a-copy.yaml": good}, "ready redis\npending redis: name redis, cgroup a: claimed by more than one workload: also redis (a.yaml)\n"},
		"its group by another":         {map[string]string{"a.yaml": good, "c.yaml": strings.Replace(good, "redis", "new", 1)}, "ready redis\npending new: cgroup a: claimed by more than one workload: also redis (a.yaml)\n"},
		"its name twice in its file":   {map[string]string{"a.yaml": good + "---\n" + good}, "pending redis: name redis, cgroup a: claimed by more than one workload: also redis (a.yaml:5)\npending redis: name redis, cgroup a: claimed by more than one workload: also redis (a.yaml:1)\n"},
		"no YAML":                      {map[string]string{"a.yaml": "foo: ["}, "ready redis\nInvalid"},
		"one document of two":          {map[string]string{"a.yaml": second + "---\nkind: [\n"}, "ready other\nready redis\nInvalid"},
		"the name in another document": {map[string]string{"a.yaml": "kind: [\n---\n" + good}, "ready redis\nInvalid"},
		"gone":                         {map[string]string{"b.yaml": second}, "ready other\n"},
		"in another file":              {map[string]string{"b.yaml": good}, "ready redis\n"},
		"nothing left in it":           {map[string]string{"a.yaml": "# not now\n"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "a.yaml"), good)
			before, err := LoadWorkloads(dir, Before{}, administrator())
			check(t, err)
			check(t, os.Remove(filepath.Join(dir, "a.yaml")))
			for file, text := range test.files {
				write(t, filepath.Join(dir, file), text)
			}
			after, err := LoadWorkloads(dir, Before{Counted: before.Ready}, administrator())
			check(t, err)
			if got := strings.ReplaceAll(report(after), dir+"/", ""); !strings.HasPrefix(got, test.want) || test.want == "" && got != "" {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
			again, err := LoadWorkloads(dir, Before{Counted: after.Ready}, administrator())
			check(t, err)
			if diff := cmp.Diff(report(after), report(again)); diff != "" {
				t.Errorf("the next look (-before +after):\n%s", diff)
			}
		})
	}
}

// TestHeldWorkloads checks that a group of an earlier process stays with its workload, and that nothing else of that
// process matters.
func TestHeldWorkloads(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		held  workload.Workload
		want  string
	}{
		"of two files":     {map[string]string{"a.yaml": good, "b.yaml": good}, workload.Workload{Name: "redis", File: "b.yaml", Cgroup: "a"}, "ready redis\npending redis: name redis, cgroup a: claimed by more than one workload: also redis (b.yaml)\n"},
		"of two names":     {map[string]string{"a.yaml": good, "b.yaml": strings.Replace(good, "redis", "new", 1)}, workload.Workload{Name: "redis", File: "a.yaml", Cgroup: "a"}, "ready redis\npending new: cgroup a: claimed by more than one workload: also redis (a.yaml)\n"},
		"another group":    {map[string]string{"a.yaml": good, "b.yaml": strings.Replace(good, "redis", "new", 1)}, workload.Workload{Name: "redis", File: "a.yaml", Cgroup: "b"}, "pending new: "},
		"a damaged file":   {map[string]string{"a.yaml": "foo: ["}, workload.Workload{Name: "redis", File: "a.yaml", Cgroup: "a"}, "Invalid"},
		"no file any more": {map[string]string{"b.yaml": good}, workload.Workload{Name: "redis", File: "a.yaml", Cgroup: "a"}, "ready redis\n"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range test.files {
				write(t, filepath.Join(dir, file), text)
			}
			test.held.File = filepath.Join(dir, test.held.File)
			got, err := LoadWorkloads(dir, Before{Held: []workload.Workload{test.held}}, administrator())
			check(t, err)
			if text := strings.ReplaceAll(report(got), dir+"/", ""); !strings.HasPrefix(text, test.want) {
				t.Errorf("got\n%s\nwant\n%s", text, test.want)
			}
		})
	}
}

func TestLoadWorkloadsNoDirectory(t *testing.T) {
	if _, err := LoadWorkloads(filepath.Join(t.TempDir(), "gone"), Before{}, administrator()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want that the directory does not exist", err)
	}
}

// TestConfigMapMount swaps the symbolic links of a ConfigMap mount.
func TestConfigMapMount(t *testing.T) {
	dir := t.TempDir()
	publish := func(generation, text string) {
		check(t, os.Mkdir(filepath.Join(dir, generation), 0o700))
		write(t, filepath.Join(dir, generation, "a.yaml"), text)
		check(t, os.Symlink(generation, filepath.Join(dir, "..tmp")))
		check(t, os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")))
	}
	publish("..1", good)
	check(t, os.Symlink("..data/a.yaml", filepath.Join(dir, "a.yaml")))
	before := takeFingerprint("", &listing{dir: dir}, time.Now())
	loaded, err := LoadWorkloads(dir, Before{}, administrator())
	check(t, err)
	if diff := cmp.Diff("ready redis\n", report(loaded)); diff != "" {
		t.Errorf("first (-want +got):\n%s", diff)
	}
	publish("..2", strings.Replace(good, "redis", "mysql", 1))
	if takeFingerprint("", &listing{dir: dir}, time.Now()) == before {
		t.Error("the swap goes unnoticed")
	}
	loaded, err = LoadWorkloads(dir, Before{}, administrator())
	check(t, err)
	if diff := cmp.Diff("ready mysql\n", report(loaded)); diff != "" {
		t.Errorf("second (-want +got):\n%s", diff)
	}
}

// FuzzText checks that no text causes a panic, that workloads in effect have no conflicts, and that no part of a
// document is silently ignored.
func FuzzText(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(good + "---\n" + good))
	f.Add([]byte("%YAML 1.1\n---\na: |\n ---\n...\n--- {b: c}\r--- # d\n\"e\n---\"\n"))
	f.Add([]byte("a: &a [b]\nc: *a\n<<: {d: e}\n? f\n: !!binary x"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > maxFile || !isText(text) {
			return
		}
		l := loader{admin: administrator()}
		l.text("fuzz.yaml", text)
		seen := map[string]bool{}
		ready, pending := settle(l.valid, nil)
		for _, w := range ready {
			for _, claim := range claimsOf(w) {
				if seen[claim] {
					t.Fatalf("%s counts twice", claim)
				}
				seen[claim] = true
			}
		}
		if len(ready)+len(pending) != len(l.valid) {
			t.Fatalf("%d ready and %d pending of %d", len(ready), len(pending), len(l.valid))
		}
		for _, d := range splitDocuments(text) {
			mustBeOne(t, d)
		}
	})
}

// mustBeOne asks the parser itself whether anything follows a document.
func mustBeOne(t *testing.T, d Document) {
	t.Helper()
	if _, err := d.JSON(); err != nil {
		return
	}
	decoder := yaml.NewDecoder(bytes.NewReader(d.text))
	var first, second any
	if err := decoder.Decode(&first); err != nil {
		t.Fatalf("%q: the first document: %v", d.text, err)
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		t.Fatalf("%q: after the first document: %v, %v", d.text, second, err)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
