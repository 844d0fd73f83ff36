package cli_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/cli"
)

// TestTopOfCluster: without a terminal, both programs print one frame of nodes and waiting pods.
func TestTopOfCluster(t *testing.T) {
	kubeconfig := api(t, renewed(time.Now()))
	host := func(t *testing.T, args ...string) (int, string) {
		t.Helper()
		var out bytes.Buffer
		code := cli.Run(t.Context(), args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out}, "test")
		return code, out.String()
	}
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"top"}, 0, "\nnode-a  2     8     1 of 2    0 %            1       2     yes\n"},
		{[]string{"top"}, 0, "\ndefault/waiting  6     "},
		{[]string{"top"}, 0, "  0/1 nodes are available: 1 node(s) had CPUs promised to pinned containers.\n"},
		{[]string{"top"}, 0, "  node-a would take it now\n"},
		{[]string{"top", "node-a"}, 1, "no view of node node-a: "},
		{[]string{"top", "node-a", "node-b"}, 2, "allowed: the name of one node"},
		{[]string{"top", "Node"}, 2, `node name "Node": allowed: a name: `},
		{[]string{"top", "-o", "svg"}, 2, "allowed: table, json, yaml"},
	} {
		args := append(test.args, "--kubeconfig", kubeconfig)
		for name, run := range map[string]func(*testing.T, ...string) (int, string){"berth": host, "kubectl berth": kubectl} {
			if code, out := run(t, args...); code != test.code || !strings.Contains(out, test.want) {
				t.Errorf("%s %q: exit code %d, want %d; no %q in\n%s", name, test.args, code, test.code, test.want, out)
			}
		}
	}
	if code, out := host(t, "top", "--kubeconfig", kubeconfig, "--config", "agent.yaml"); code != 2 || !strings.Contains(out, "--config: only allowed without a cluster") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	code, out := kubectl(t, "top", "-o", "json", "--kubeconfig", kubeconfig)
	var v view.Cluster
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 0 || v.Format != view.Format || len(v.Nodes) != 1 || v.Nodes[0].FreeL3 != 1 || v.PendingTotal != 5 || !strings.HasPrefix(v.Server, "http://127.0.0.1:") {
		t.Errorf("exit code %d, %v: %s", code, err, out)
	}
}

// TestTopLacksRights: the error names a list that was refused. Without Leases, everything else is shown.
func TestTopLacksRights(t *testing.T) {
	code, out := kubectl(t, "top", "--kubeconfig", api(t, nil))
	if code != 0 || !strings.Contains(out, "\nproblem: not known whether Berth's agents run: ") || !strings.Contains(out, "node-a") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	for _, path := range []string{"/api/v1/nodes", "/api/v1/pods", "/apis/berth.dev/v1alpha1/nodetopologies"} {
		code, out := kubectl(t, "top", "--kubeconfig", api(t, renewed(time.Now()), path))
		resource := path[strings.LastIndex(path, "/")+1:]
		if code != 1 || !strings.Contains(out, "list "+resource+" of ") || !strings.Contains(out, `cannot list resource "`+resource+`"`) {
			t.Errorf("%s: exit code %d\n%s", path, code, out)
		}
	}
}
