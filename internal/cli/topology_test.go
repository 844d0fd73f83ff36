package cli_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/internal/cli"
	"github.com/berth-project/berth/internal/linux/topology"
)

var update = flag.Bool("update", false, "write golden files")

const machinesDir = "../../testdata/machines/"

// berthRun runs one command line in this process.
func berthRun(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = cli.Run(t.Context(), args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}, "test")
	return code, out.String(), errs.String()
}

func TestTopologyOutput(t *testing.T) {
	for _, test := range []struct{ machine, format string }{
		{"two-socket-ht", "tree"},
		{"ccx-nps4", "tree"},
		{"snc-interleaved", "tree"},
		{"hybrid-frequency", "tree"},
		{"arm64-80c", "tree"},
		{"smt4-sparse", "tree"},
		{"node-above-socket", "tree"},
		{"core-ids-repeat", "tree"},
		{"no-package", "tree"},
		{"tables-contradict", "tree"},
		{"careless-recording", "table"},
		{"hybrid-pe", "table"},
		{"one-socket-6c", "yaml"},
	} {
		t.Run(test.machine+"."+test.format, func(t *testing.T) {
			code, out, errs := berthRun(t, "topology", "--root", machinesDir+test.machine+".txtar", "-o", test.format)
			if code != 0 || errs != "" {
				t.Fatalf("exit %d, %s", code, errs)
			}
			name := filepath.Join("testdata/topology", test.machine+"."+test.format)
			if *update {
				if err := os.WriteFile(name, []byte(out), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), out); diff != "" {
				t.Errorf("-update writes %s (-file +now):\n%s", name, diff)
			}
		})
	}
}

// TestTopologyDocument compares JSON and YAML with each other and with the golden files of the discovery.
func TestTopologyDocument(t *testing.T) {
	names, err := filepath.Glob(machinesDir + "*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatal("no machines", err)
	}
	for _, name := range names {
		want, err := os.ReadFile(strings.TrimSuffix(name, ".txtar") + ".golden.json")
		if err != nil {
			t.Fatal(err)
		}
		_, out, _ := berthRun(t, "topology", "--root", name, "-o", "json")
		if diff := cmp.Diff(string(want), out); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		_, out, _ = berthRun(t, "topology", "--root", name, "-o", "yaml")
		document, err := yaml.YAMLToJSON([]byte(out))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := topology.Decode(document); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTopologyKeys: scripts read these keys, so they must not change.
func TestTopologyKeys(t *testing.T) {
	_, out, _ := berthRun(t, "topology", "--root", machinesDir+"no-package.txtar", "-o", "json")
	var document map[string]json.RawMessage
	if err := json.Unmarshal([]byte(out), &document); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"online": `"0-3"`, "offline": `""`, "sockets": `[]`, "dies": `[]`, "l3": `[]`, "caches": `[]`,
		"isolated": `""`, "nohzFull": `""`, "reserved": `""`,
		"numaNodes": `[{"id":0,"cpus":"0-3","memoryBytes":17179869184,"distances":[10]}]`,
		"cores": `[{"id":0,"cpus":"0","socket":-1,"numa":0,"l3":-1,"kind":""},{"id":1,"cpus":"1","socket":-1,"numa":0,"l3":-1,"kind":""},` +
			`{"id":2,"cpus":"2","socket":-1,"numa":0,"l3":-1,"kind":""},{"id":3,"cpus":"3","socket":-1,"numa":0,"l3":-1,"kind":""}]`,
	} {
		var got bytes.Buffer
		if err := json.Compact(&got, document[key]); err != nil || got.String() != want {
			t.Errorf("%s: got %s, want %s (%v)", key, got.String(), want, err)
		}
	}
	if _, ok := document["warnings"]; !ok || len(document) != 12 {
		t.Errorf("%d keys, want the 12 of the contract", len(document))
	}
}

func TestTopologyCapture(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first.txtar"), filepath.Join(dir, "second.txtar")
	machine := machinesDir + "ccx-nps1.txtar"
	if code, out, errs := berthRun(t, "topology", "--root", machine, "--capture", first); code != 0 || !strings.Contains(out, "recorded") {
		t.Fatalf("exit %d, %s%s", code, out, errs)
	}
	berthRun(t, "topology", "--root", first, "--capture", second)
	if a, b := content(t, first), content(t, second); a != b || a == "" {
		t.Error("the capture of a capture differs")
	}
	_, want, _ := berthRun(t, "topology", "--root", machine, "-o", "json")
	if _, got, _ := berthRun(t, "topology", "--root", first, "-o", "json"); got != want {
		t.Errorf("the capture is another machine:\n%s", cmp.Diff(want, got))
	}
	if _, out, _ := berthRun(t, "topology", "--root", machine, "--capture", "-"); out != content(t, first) {
		t.Error("standard output holds another capture than the file")
	}
}

func TestTopologyCaptureKeepsFiles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "mine.txtar")
	if err := os.WriteFile(name, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	machine := machinesDir + "one-socket-6c.txtar"
	code, _, errs := berthRun(t, "topology", "--root", machine, "--capture", name)
	if code != 2 || !strings.Contains(errs, "--force") || content(t, name) != "precious" {
		t.Errorf("exit %d, %s", code, errs)
	}
	if code, _, errs := berthRun(t, "topology", "--root", machine, "--capture", name, "--force"); code != 0 || content(t, name) == "precious" {
		t.Errorf("with --force: exit %d, %s", code, errs)
	}
	if left, err := os.ReadDir(filepath.Dir(name)); err != nil || len(left) != 1 {
		t.Errorf("files left behind: %v, %v", left, err)
	}
}

// TestTopologyReadsATree: an unpacked recording describes the same machine as the archive.
func TestTopologyReadsATree(t *testing.T) {
	dir := t.TempDir()
	recording, err := topology.ParseRecording([]byte(content(t, machinesDir+"masks-only.txtar")))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, recording); err != nil {
		t.Fatal(err)
	}
	_, want, _ := berthRun(t, "topology", "--root", machinesDir+"masks-only.txtar", "-o", "json")
	if code, got, errs := berthRun(t, "topology", "--root", dir, "-o", "json"); code != 0 || got != want {
		t.Errorf("exit %d, %s\n%s", code, errs, cmp.Diff(want, got))
	}
}

func TestTopologyRefuses(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(text, []byte("no machine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	absent := filepath.Join(dir, "absent")
	for _, test := range []struct {
		args  []string
		names string
	}{
		{[]string{"--root", absent}, "--root " + absent},
		{[]string{"--root", dir}, "--root " + dir},
		{[]string{"--root", text}, "--root " + text},
		{[]string{"--root", dir, "--capture", absent}, "--root " + dir},
		{[]string{"--root", machinesDir + "no-package.txtar", "--capture", absent + "/x"}, "--capture " + absent},
		{[]string{"-o", "xml"}, `--output "xml"`},
		{[]string{"--force"}, "--force"},
		{[]string{"extra"}, `"extra"`},
	} {
		code, out, errs := berthRun(t, append([]string{"topology"}, test.args...)...)
		if code != 2 || out != "" || !strings.Contains(errs, test.names) || !strings.Contains(errs, "allowed") && !strings.Contains(errs, "takes no") {
			t.Errorf("%q: exit %d, %q, %q; want 2 and %s", test.args, code, out, errs, test.names)
		}
	}
}

func content(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
