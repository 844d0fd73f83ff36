package cli_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/cli"
)

// kubectl runs the program as kubectl's plugin.
func kubectl(t *testing.T, args ...string) (int, string) {
	t.Helper()
	var out bytes.Buffer
	code := cli.RunAs(t.Context(), cli.Program{Name: "kubectl-berth", Version: "test"}, args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out})
	return code, out.String()
}

// TestPluginAsksTheCluster: as kubectl's plugin, status and topology describe nodes, not the host.
func TestPluginAsksTheCluster(t *testing.T) {
	kubeconfig := api(t, renewed(time.Now()))
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"status"}, 0, "node-a"},
		{[]string{"status", "-o", "json"}, 0, `"name": "node-a"`},
		{[]string{"topology", "node-a"}, 0, "8 CPUs, 4 cores, 2 threads a core"},
		{[]string{"topology", "node-a", "-o", "svg"}, 0, "<title>CPU 7, core 6</title>"},
		{[]string{"topology", "node-b"}, 2, `node "node-b" has no NodeTopology: allowed: node-a`},
		{[]string{"web", "node-a", "node-b"}, 2, "allowed: the name of one node"},
		{[]string{"web", "node-a", "--replay", "x.jsonl"}, 2, "--replay: only allowed without a node or a cluster"},
		{[]string{"web", "node-a"}, 1, "no page of node node-a: "},
		{[]string{"topology", "node-a", "-o", "nodetopology"}, 2, "allowed: tree, table, json, yaml, svg"},
	} {
		code, out := kubectl(t, append(test.args, "--kubeconfig", kubeconfig)...)
		if code != test.code || !strings.Contains(out, test.want) {
			t.Errorf("%v: exit code %d, want %d; %q in\n%s", test.args, code, test.code, test.want, out)
		}
	}
}

// TestPluginsExamplesAreItsOwn checks that each example in the help of the plugin is a command that the plugin takes.
func TestPluginsExamplesAreItsOwn(t *testing.T) {
	program := cli.Program{Name: "kubectl-berth", Version: "test"}
	examples := 0
	for _, cmd := range cli.Command(program).Commands() {
		for line := range strings.Lines(cmd.Example) {
			for part := range strings.FieldsFuncSeq(line, func(r rune) bool { return r == '|' || r == '&' }) {
				words := strings.Fields(part)
				if cmd.Hidden || len(words) < 2 || words[0] == "kubectl" && words[1] == "get" {
					continue
				}
				examples++
				if words[0] != "kubectl" || words[1] != "berth" {
					t.Errorf("%s: %q is no command of the plugin", cmd.Name(), part)
					continue
				}
				words = slices.DeleteFunc(words[2:], func(w string) bool { return strings.HasPrefix(w, ">") })
				found, args, err := cli.Command(program).Find(words)
				if err == nil {
					err = found.ParseFlags(args)
				}
				if err == nil {
					err = found.ValidateArgs(found.Flags().Args())
				}
				if err != nil {
					t.Errorf("%s: %q: %v", cmd.Name(), part, err)
				}
			}
		}
	}
	if examples < 20 {
		t.Errorf("%d examples", examples)
	}
}

// TestPodNamesComplete: the shell completes nodes and the pods of the namespace.
func TestPodNamesComplete(t *testing.T) {
	kubeconfig := api(t, renewed(time.Now()))
	for _, test := range []struct {
		args       []string
		want, none string
	}{
		{[]string{"explain", "--kubeconfig", kubeconfig, ""}, "pod/bound\npod/foreign\n", "shop"},
		{[]string{"explain", "--kubeconfig", kubeconfig, "pod", ""}, "\nbound\nforeign\n", "pod/"},
		{[]string{"explain", "--kubeconfig", kubeconfig, "-n", "shop", ""}, ":4\n", "bound"},
		{[]string{"topology", "--kubeconfig", kubeconfig, ""}, "node-a\n", "node-b"},
		{[]string{"web", "--kubeconfig", kubeconfig, ""}, "node-a\n", "node-b"},
		{[]string{"top", "--kubeconfig", kubeconfig, ""}, "node-a\n", "node-b"},
		{[]string{"top", "--kubeconfig", kubeconfig, "node-a", ""}, ":4\n", "node-b"},
		{[]string{"repack", "--kubeconfig", kubeconfig, ""}, "node-a\n", "node-b"},
		{[]string{"explain", "--kubeconfig", "/absent", ""}, ":4\n", "pod/"},
	} {
		code, out := kubectl(t, append([]string{"__complete"}, test.args...)...)
		if code != 0 || !strings.Contains("\n"+out, test.want) || strings.Contains(out, test.none) {
			t.Errorf("%v: exit code %d, want %q and no %q in\n%s", test.args, code, test.want, test.none, out)
		}
	}
}
