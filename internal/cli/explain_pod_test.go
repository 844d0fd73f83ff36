package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/cli"
	"github.com/berth-project/berth/internal/scheduler/simulate"
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
metadata: {name: small, annotations: {cpuset-scheduler: "true"}}
spec:
  schedulerName: berth-scheduler
  containers: [{name: main, resources: {limits: {cpu: 2, memory: 1Gi}}}]
status: {phase: Pending}
---
apiVersion: v1
kind: Pod
metadata: {name: held, annotations: {cpuset-scheduler: "true"}}
spec:
  schedulerName: berth-scheduler
  schedulingGates: [{name: shop.example/review}]
  containers: [{name: main, resources: {limits: {cpu: 2}}}]
status:
  phase: Pending
  conditions: [{type: PodScheduled, status: "False", reason: SchedulingGated}]
---
apiVersion: v1
kind: Pod
metadata: {name: foreign, annotations: {cpuset-scheduler: "true"}}
spec:
  schedulerName: volcano
  containers: [{name: main, resources: {limits: {cpu: 2}}}]
status: {phase: Pending}
---
apiVersion: v1
kind: Pod
metadata:
  name: alone
  annotations:
    cpuset-scheduler: "true"
    scheduling.koordinator.sh/resource-spec: '{"requiredCPUExclusivePolicy": "PCPULevel"}'
spec:
  schedulerName: berth-scheduler
  containers: [{name: main, resources: {limits: {cpu: 1}}}]
status: {phase: Pending}
---
apiVersion: v1
kind: Pod
metadata: {name: plain}
spec: {nodeName: node-a, containers: [{name: main}]}
status: {phase: Running}
`

const leasesPath = "/apis/coordination.k8s.io/v1/namespaces/berth-system/leases"

// api serves the lists that explain reads. Nil leases and the given paths are forbidden. Its watches report no events.
func api(t *testing.T, leases *coordinationv1.LeaseList, forbidden ...string) (kubeconfig string) {
	t.Helper()
	objects, err := simulate.Read([]string{"-"}, strings.NewReader(explainedCluster))
	if err != nil {
		t.Fatal(err)
	}
	pods := v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
	for _, p := range objects.Pods {
		pods.Items = append(pods.Items, *p.Pod)
	}
	lists := map[string]any{
		"/api/v1/nodes": v1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, Items: objects.Nodes},
		"/api/v1/pods":  pods,
		"/apis/berth.dev/v1alpha1/nodetopologies": v1alpha1.NodeTopologyList{
			TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: "NodeTopologyList"}, Items: objects.Topologies,
		},
	}
	if leases != nil {
		lists[leasesPath] = leases
	}
	return served(t, func(w http.ResponseWriter, r *http.Request) {
		list, found := lists[r.URL.Path]
		w.Header().Set("Content-Type", "application/json")
		if !found || slices.Contains(forbidden, r.URL.Path) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"User \"a\" cannot list resource \"%s\""}`, path.Base(r.URL.Path))
			return
		}
		if r.URL.Query().Has("watch") {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		_ = json.NewEncoder(w).Encode(list)
	})
}

// served returns a kubeconfig for an API server with the given handler.
func served(t *testing.T, answer http.HandlerFunc) (kubeconfig string) {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "x", "users": [{"name": "u", "user": {}}],
"clusters": [{"name": "c", "cluster": {"server": %q}}], "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}]}`, server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// TestNotKubeconfig: the error for an invalid kubeconfig names the file and no Go type.
func TestNotKubeconfig(t *testing.T) {
	name := filepath.Join(t.TempDir(), "passwd")
	if err := os.WriteFile(name, []byte("root:x:0:0:root:/root:/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out := kubectl(t, "status", "--kubeconfig", name)
	if code != 2 || !strings.Contains(out, `--kubeconfig "`+name+`", or KUBECONFIG: allowed: `) || strings.Contains(out, "struct") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

func TestExplainPod(t *testing.T) {
	kubeconfig := api(t, renewed(time.Now()))
	for _, test := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"pod/bound"}, 0, []string{
			"default/bound is on node node-a\n", "container main: CPUs 0-3, memory of NUMA node 0, exclusive\n",
			"NUMA nodes: 1, as a new placement would have",
		}},
		{[]string{"pod", "waiting"}, 0, []string{
			"default/waiting is pending: 0/1 nodes are available: 1 node(s) had CPUs promised to pinned containers.\n",
			"scheduler Unschedulable: 0/1 nodes are available\n", "  node-a: CPUs promised to pinned containers: 6 CPUs wanted, 4 left\n",
		}},
		{[]string{"po/plain"}, 0, []string{"default/plain is on node node-a\n", "asks      for no exclusive CPUs"}},
		{[]string{"pod/waiting", "-o", "json"}, 0, []string{`"state": "pending"`, `"condition": "Unschedulable: 0/1 nodes are available"`}},
		{[]string{"pod/small"}, 0, []string{"has no node yet; node-a would take it now (scheduler: berth-scheduler)", "not seen  namespace caps"}},
		{[]string{"pod/held"}, 0, []string{
			"is pending: held back by the scheduling gate \"shop.example/review\"", "without its scheduling gates node node-a would take it now",
			"scheduler SchedulingGated\n",
		}},
		{[]string{"pod/foreign"}, 0, []string{
			"berth-scheduler would put it on node-a now, but it asks for the scheduler volcano",
			`it asks for the scheduler "volcano", which is not Berth's`,
		}},
		{[]string{"pod/alone"}, 0, []string{"container main: CPUs 4,", "empty     CPUs 5: siblings", "2 CPUs left free in its L3 domains"}},
		{[]string{"pod/absent"}, 2, []string{`pod "absent" is not in namespace "default", or complete: allowed: alone, bound, foreign, held, plain, small, waiting`}},
		{[]string{"pod/bound", "-n", "shop"}, 2, []string{`not in namespace "shop"`, "none, it has no pods"}},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			code, out := explained(t, kubeconfig, test.args...)
			if code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			for _, want := range test.want {
				if !strings.Contains(out, want) {
					t.Errorf("%q is not in\n%s", want, out)
				}
			}
		})
	}
}

func explained(t *testing.T, kubeconfig string, args ...string) (int, string) {
	t.Helper()
	var out bytes.Buffer
	args = append([]string{"explain", "--kubeconfig", kubeconfig}, args...)
	code := cli.Run(t.Context(), args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out}, "test")
	return code, out.String()
}

// renewed returns the Lease of the only node's agent.
func renewed(at time.Time) *coordinationv1.LeaseList {
	lease := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}}
	lease.Spec.RenewTime = &metav1.MicroTime{Time: at}
	return &coordinationv1.LeaseList{TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "LeaseList"}, Items: []coordinationv1.Lease{lease}}
}

// TestExplainAgents: a node with a silent agent accepts no pinned pod. A user who may not read Leases is told that the
// liveness is unknown. On a slow machine the stale Lease may be some seconds older.
func TestExplainAgents(t *testing.T) {
	for name, test := range map[string]struct {
		leases *coordinationv1.LeaseList
		want   []string
	}{
		"none":      {&coordinationv1.LeaseList{}, []string{"1 node(s) had a Berth agent that did not renew its Lease", "no Lease berth-system/node-a"}},
		"stale":     {renewed(time.Now().Add(-150 * time.Minute)), []string{"1 node(s) had a Berth agent that did not renew its Lease", "was renewed 2h3", "s ago, which may be 3m0s"}},
		"fresh":     {renewed(time.Now()), []string{"node-a would take it now"}},
		"forbidden": {nil, []string{"node-a would take it now", "not known whether Berth's agents run: ", "liveness of the agents"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, out := explained(t, api(t, test.leases), "pod/small")
			for _, want := range test.want {
				if code != 0 || !strings.Contains(out, want) {
					t.Errorf("exit code %d, %q is not in\n%s", code, want, out)
				}
			}
			if code, out := explained(t, api(t, test.leases), "pod/plain"); code != 0 || strings.Contains(out, "agent") {
				t.Errorf("an ordinary pod: exit code %d\n%s", code, out)
			}
		})
	}
}
