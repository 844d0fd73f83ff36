package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/cli"
	"github.com/berth-project/berth/internal/simulate"
)

const explainedCluster = `
apiVersion: berth.dev/v1alpha1
kind: NodeTopology
metadata: {name: node-a}
spec:
  online: 0-7
  numaNodes: [{id: 0, cpus: 0-7, memoryBytes: 8589934592, distances: [10]}]
  l3: [{id: 0, cpus: 0-3}, {id: 1, cpus: 4-7}]
  cores: [0-1, 2-3, 4-5, 6-7]
---
apiVersion: v1
kind: Node
metadata: {name: node-a}
status: {allocatable: {cpu: "8", memory: 8Gi, pods: "50"}}
---
apiVersion: v1
kind: Pod
metadata:
  name: bound
  annotations:
    cpuset-scheduler: "true"
    berth.dev/placement: '{"v":1,"topology":"e6b8a9ad2e2d1f6c","containers":{"main":{"cpus":"0-3","mems":"0","policy":"exclusive"}}}'
spec:
  schedulerName: berth-scheduler
  nodeName: node-a
  containers: [{name: main, resources: {limits: {cpu: 4}}}]
status: {phase: Running}
---
apiVersion: v1
kind: Pod
metadata: {name: waiting, annotations: {cpuset-scheduler: "true"}}
spec:
  schedulerName: berth-scheduler
  containers: [{name: main, resources: {limits: {cpu: 6}, requests: {cpu: 1}}}]
status:
  phase: Pending
  conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: "0/1 nodes are available"}]
---
apiVersion: v1
kind: Pod
metadata: {name: plain}
spec: {nodeName: node-a, containers: [{name: main}]}
status: {phase: Running}
`

// api serves the three lists that explain asks for.
func api(t *testing.T) (kubeconfig string) {
	t.Helper()
	objects, err := simulate.Read([]string{"-"}, strings.NewReader(explainedCluster))
	if err != nil {
		t.Fatal(err)
	}
	var pods v1.PodList
	for _, p := range objects.Pods {
		pods.Items = append(pods.Items, *p.Pod)
	}
	lists := map[string]any{
		"/api/v1/nodes": v1.NodeList{Items: objects.Nodes},
		"/api/v1/pods":  pods,
		"/apis/berth.dev/v1alpha1/nodetopologies": v1alpha1.NodeTopologyList{Items: objects.Topologies},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		list, found := lists[r.URL.Path]
		if !found {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(list)
	}))
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "x", "users": [{"name": "u", "user": {}}],
"clusters": [{"name": "c", "cluster": {"server": %q}}], "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}]}`, server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

func TestExplainPod(t *testing.T) {
	kubeconfig := api(t)
	for _, test := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"pod/bound"}, 0, []string{
			"default/bound is on node node-a\n", "container main: CPUs 0-3, memory of NUMA nodes 0, exclusive\n",
			"NUMA nodes: 1, as a new placement would have",
		}},
		{[]string{"pod", "waiting"}, 0, []string{
			"default/waiting is pending: 0/1 nodes are available: 1 CPUs promised to pinned containers.\n",
			"scheduler Unschedulable: 0/1 nodes are available\n", "  node-a: CPUs promised to pinned containers: 6 CPUs wanted, 4 left\n",
		}},
		{[]string{"po/plain"}, 0, []string{"default/plain is on node node-a\n", "asks      for no CPUs of its own"}},
		{[]string{"pod/waiting", "-o", "json"}, 0, []string{`"state": "pending"`, `"condition": "Unschedulable: 0/1 nodes are available"`}},
		{[]string{"pod/absent"}, 2, []string{`pod "absent" is not in namespace "default", or complete: allowed: bound, plain, waiting`}},
		{[]string{"pod/bound", "-n", "shop"}, 2, []string{`not in namespace "shop"`, "none, it has no pods"}},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			var out bytes.Buffer
			args := append([]string{"explain", "--kubeconfig", kubeconfig}, test.args...)
			code := cli.Run(t.Context(), args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out}, "test")
			if code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			for _, want := range test.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is not in\n%s", want, out.String())
				}
			}
		})
	}
}
