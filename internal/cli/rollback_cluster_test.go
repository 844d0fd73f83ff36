package cli_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/cli"
)

// restoring serves a berth-config with state: restore, one agent that reports the given reason, and one node without an
// agent.
func restoring(t *testing.T, reason string) (kubeconfig string) {
	t.Helper()
	answers := map[string]string{
		"/api/v1/namespaces/berth-system/configmaps/berth-config": `{"apiVersion": "v1", "kind": "ConfigMap", "data": {"state": "restore"}}`,
		"/apis/berth.dev/v1alpha1/nodetopologies": fmt.Sprintf(`{"apiVersion": "berth.dev/v1alpha1", "kind": "NodeTopologyList", "items": [
{"metadata": {"name": "a"}, "status": {"conditions": [{"type": "Pinnable", "status": "False", "reason": %q, "message": "m"}]}}, {"metadata": {"name": "b"}}]}`, reason),
		"/apis/coordination.k8s.io/v1/namespaces/berth-system/leases": fmt.Sprintf(`{"apiVersion": "coordination.k8s.io/v1", "kind": "LeaseList", "items": [
{"metadata": {"name": "a"}, "spec": {"holderIdentity": "i", "renewTime": %q}}]}`, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")),
	}
	return served(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if answers[r.URL.Path] == "" || r.Method != http.MethodGet {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		_, _ = w.Write([]byte(answers[r.URL.Path]))
	})
}

// TestRollbackUnanswered: without an answer of the API server, rollback prints no table and no heading.
func TestRollbackUnanswered(t *testing.T) {
	broken := served(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) })
	code, out := kubectl(t, "rollback", "--timeout", "1s", "--kubeconfig", broken)
	if code != 1 || !strings.HasPrefix(out, "berth: ") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// TestRollbackByAgents: the kubectl plugin rolls back the cluster, and berth on a host does so with --cluster. Both
// name the nodes without an agent and the nodes that have not finished.
func TestRollbackByAgents(t *testing.T) {
	t.Parallel()
	done, late := restoring(t, "Restored"), restoring(t, "Restoring")
	onHost := func(args ...string) (int, string) {
		var out bytes.Buffer
		code := cli.Run(t.Context(), args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out}, "test")
		return code, out.String()
	}
	byPlugin := func(args ...string) (int, string) { return kubectl(t, args...) }
	const absent = "its agent has no Lease: berth rollback on the node puts back what it left"
	for _, test := range []struct {
		run  func(...string) (int, string)
		args string
		code int
		want string
	}{
		{onHost, "--cluster --kubeconfig " + done, 0, absent},
		{byPlugin, "--kubeconfig " + done, 0, absent},
		{byPlugin, "-o json --kubeconfig " + done, 0, `{
  "nodes": [
    {
      "node": "a",
      "state": "Restored",
      "text": "m"
    },`},
		{byPlugin, "--timeout 1s --kubeconfig " + late, 4, "berth: not everything is put back after 1s on a\n"},
		{byPlugin, "--timeout 0s --kubeconfig " + done, 2, "--timeout 0s: allowed: more than 0, at most 1h0m0s"},
		{byPlugin, "--timeout 2h --kubeconfig " + done, 2, "--timeout 2h0m0s: allowed"},
		{byPlugin, "-o svg", 2, "allowed: table, json, yaml"},
		{byPlugin, "--dry-run", 2, "unknown flag"},
		{onHost, "--kubeconfig " + done, 2, "--kubeconfig: only allowed with --cluster"},
		{onHost, "--timeout 1m", 2, "--timeout: only allowed with --cluster"},
		{onHost, "--cluster --owner burst", 2, "--owner: only allowed without --cluster"},
		{onHost, "--cluster --dry-run", 2, "--dry-run: only allowed without --cluster"},
	} {
		code, out := test.run(append([]string{"rollback"}, strings.Fields(test.args)...)...)
		if code != test.code || !strings.Contains(out, test.want) {
			t.Errorf("%s: exit code %d, want %d; %q in\n%s", test.args, code, test.code, test.want, out)
		}
	}
}
