package cli_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/scheduler/simulate"
)

// fragmented is a cluster in which one move makes room for default/c.
const fragmented = `
apiVersion: berth.dev/v1alpha1
kind: NodeTopology
metadata: {name: node-a}
spec:
  online: 0-15
  sockets: [{id: 0, cpus: "0-3,8-11"}, {id: 1, cpus: "4-7,12-15"}]
  numaNodes:
  - {id: 0, cpus: "0-3,8-11", memoryBytes: 8589934592, distances: [10, 21]}
  - {id: 1, cpus: "4-7,12-15", memoryBytes: 8589934592, distances: [21, 10]}
  l3: [{id: 0, cpus: "0-3,8-11"}, {id: 1, cpus: "4-7,12-15"}]
  cores: ["0,8", "1,9", "2,10", "3,11", "4,12", "5,13", "6,14", "7,15"]
---
apiVersion: v1
kind: Node
metadata: {name: node-a}
status: {allocatable: {cpu: "16", memory: 16Gi, pods: "110"}}
---
apiVersion: v1
kind: Pod
metadata:
  name: a
  namespace: default
  uid: a
  annotations:
    cpuset-scheduler: "true"
    berth.dev/movable: "true"
    berth.dev/placement: '{"v":1,"topology":"0123456789abcdef","containers":{"app":{"cpus":"0-1,8-9","mems":"0-1","policy":"exclusive"}}}'
spec:
  nodeName: node-a
  containers: [{name: app, resources: {requests: {cpu: 4}, limits: {cpu: 4}}}]
status: {phase: Running}
---
apiVersion: v1
kind: Pod
metadata:
  name: b
  namespace: default
  uid: b
  annotations:
    cpuset-scheduler: "true"
    berth.dev/placement: '{"v":1,"topology":"0123456789abcdef","containers":{"app":{"cpus":"4-5,12-13","mems":"0-1","policy":"exclusive"}}}'
spec:
  nodeName: node-a
  containers: [{name: app, resources: {requests: {cpu: 4}, limits: {cpu: 4}}}]
status: {phase: Running}
---
apiVersion: v1
kind: Pod
metadata:
  name: c
  namespace: default
  uid: c
  annotations:
    cpuset-scheduler: "true"
    scheduling.koordinator.sh/numa-topology-spec: '{"numaTopologyPolicy":"SingleNUMANode"}'
spec:
  schedulerName: berth-scheduler
  containers: [{name: app, resources: {requests: {cpu: 6}, limits: {cpu: 6}}}]
`

// moving serves that cluster, with an agent that answers moves. The server carries out its first writes but answers
// them with the given codes.
func moving(t *testing.T, renewed time.Time, agent func(p *v1.Pod, m v1alpha1.Move), codes ...int) (kubeconfig string) {
	t.Helper()
	objects, err := simulate.Read([]string{"-"}, strings.NewReader(fragmented))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	rights := repackRights(t)
	holder := "i"
	if renewed.IsZero() { // the agent ended
		holder = ""
	}
	lease := fmt.Sprintf(`{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "node-a"}, "spec": {"holderIdentity": %q, "renewTime": %q}}`,
		holder, renewed.UTC().Format("2006-01-02T15:04:05.000000Z"))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if right := rightFor(r); !slices.Contains(rights, right) {
			t.Errorf("%s %s: the roles of who may repack lack %q", r.Method, r.URL.Path, right)
		}
		w.Header().Set("Content-Type", "application/json")
		var answer any
		switch r.URL.Path {
		case "/api/v1/nodes":
			answer = v1.NodeList{Items: objects.Nodes}
		case "/apis/berth.dev/v1alpha1/nodetopologies":
			answer = v1alpha1.NodeTopologyList{Items: objects.Topologies}
		case leasesPath:
			answer = json.RawMessage(`{"apiVersion": "coordination.k8s.io/v1", "kind": "LeaseList", "items": [` + lease + `]}`)
		case leasesPath + "/node-a":
			answer = json.RawMessage(lease)
		case "/api/v1/pods":
			var list v1.PodList
			for _, p := range objects.Pods {
				list.Items = append(list.Items, *p.Pod)
			}
			answer = list
		default:
			name := strings.TrimPrefix(strings.TrimSuffix(r.URL.Path, "/status"), "/api/v1/namespaces/default/pods/")
			for _, p := range objects.Pods {
				if p.Name == name {
					answer = p.Pod
					answerMove(t, r, p.Pod, agent)
					if r.Method == http.MethodPatch && len(codes) > 0 {
						w.WriteHeader(codes[0])
						codes = codes[1:]
					}
				}
			}
		}
		if answer == nil {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		_ = json.NewEncoder(w).Encode(answer)
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

// repackRights returns the rights of the shipped repack roles, in the format of rightFor.
func repackRights(t *testing.T) []string {
	t.Helper()
	file, err := os.ReadFile("../../deploy/repack.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rights []string
	for document := range strings.SplitSeq(string(file), "\n---\n") {
		var role rbacv1.ClusterRole // a Role has the same fields
		if err := yaml.UnmarshalStrict([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, verb := range rule.Verbs {
				rights = append(rights, strings.TrimSpace(role.Namespace+" "+verb+" "+rule.Resources[0]))
			}
		}
	}
	return rights
}

// rightFor returns the right that a request needs. The right to pods must apply in all namespaces.
func rightFor(r *http.Request) string {
	path, isPod := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/default/pods/")
	_, isLease := strings.CutPrefix(r.URL.Path, leasesPath)
	switch {
	case isPod && r.Method == http.MethodPatch && strings.HasSuffix(path, "/status"):
		return "patch pods/status"
	case isPod && r.Method == http.MethodGet:
		return "get pods"
	case isLease && r.Method == http.MethodGet:
		return "berth-system " + map[bool]string{true: "list", false: "get"}[r.URL.Path == leasesPath] + " leases"
	case r.Method == http.MethodGet:
		return "list " + r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	}
	return r.Method
}

// answerMove stores a written move, and the agent answers it at the next read.
func answerMove(t *testing.T, r *http.Request, p *v1.Pod, agent func(p *v1.Pod, m v1alpha1.Move)) {
	if r.Method == http.MethodPatch {
		var patch struct {
			Metadata struct{ Annotations map[string]*string }
		}
		if err := json.NewDecoder(r.Body).Decode(&patch); err != nil && err != io.EOF {
			t.Error(err)
		}
		for key, value := range patch.Metadata.Annotations {
			if delete(p.Annotations, key); value != nil {
				p.Annotations[key] = *value
			}
		}
		p.ResourceVersion += "1"
		return
	}
	if m, problems := v1alpha1.DecodeMove(p.Annotations[v1alpha1.AnnotationMove]); len(problems) == 0 && m.Refused == "" {
		agent(p, m)
	}
}

// TestRepack: repack carries out the plan for the waiting pod. Each way in which a move can end has its own message and
// exit code.
func TestRepack(t *testing.T) {
	t.Parallel()
	moves := func(p *v1.Pod, m v1alpha1.Move) {
		p.Annotations[v1alpha1.AnnotationPlacement] = strings.Replace(p.Annotations[v1alpha1.AnnotationPlacement], m.From, m.To, 1)
		delete(p.Annotations, v1alpha1.AnnotationMove)
	}
	refuses := func(p *v1.Pod, m v1alpha1.Move) {
		m.Refused = "CPUs 6 belong to another pod"
		p.Annotations[v1alpha1.AnnotationMove] = m.Encode()
	}
	withdraws := func(p *v1.Pod, m v1alpha1.Move) {
		if m.Withdrawn {
			delete(p.Annotations, v1alpha1.AnnotationMove)
		}
	}
	now := time.Now()
	for _, test := range []struct {
		name    string
		renewed time.Time
		agent   func(p *v1.Pod, m v1alpha1.Move)
		args    string
		code    int
		want    []string
	}{
		{"moved", now, moves, "", 0, []string{
			"plan: node node-a has room for default/c after 1 move\n", "  1. default/a: CPUs 0-1,8-9 -> 6-7,14-15: moved\n",
		}},
		{"as JSON", now, moves, "-o json", 0, []string{`"pod": "default/c"`, `"from": "0-1,8-9"`, `"to": "6-7,14-15"`, `"state": "Moved"`}},
		{"refused", now, refuses, "", 1, []string{
			"-> 6-7,14-15: refused: CPUs 6 belong to another pod\n", "move default/a to CPUs 6-7,14-15: move refused: CPUs 6 belong to another pod",
		}},
		{"no answer", now, withdraws, "--timeout 1s", 4, []string{
			"-> 6-7,14-15: not moved: it was withdrawn", "move not finished: the agent of node node-a does not answer",
		}},
		{"planned only", now, moves, "--dry-run", 0, []string{
			"node-a: 6 free CPUs", "  1. default/a: CPUs 0-1,8-9 -> 6-7,14-15\n",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"repack", "node-a", "--kubeconfig", moving(t, test.renewed, test.agent)}, strings.Fields(test.args)...)
			code, text := kubectl(t, args...)
			if code != test.code {
				t.Errorf("exit code %d, want %d: %s", code, test.code, text)
			}
			for _, want := range test.want {
				if !strings.Contains(text, want) {
					t.Errorf("lacks %q:\n%s", want, text)
				}
			}
		})
	}
	code, text := kubectl(t, "repack", "node-a", "--kubeconfig", moving(t, now, withdraws, http.StatusInternalServerError))
	if code != 4 || !strings.Contains(text, "-> 6-7,14-15: not moved: it was withdrawn") || !strings.Contains(text, "it is not known whether it was asked for") {
		t.Errorf("written, though the answer is an error: exit code %d: %s", code, text)
	}
	if code, text := kubectl(t, "repack", "node-a", "--kubeconfig", moving(t, time.Time{}, moves)); code == 0 || strings.Contains(text, "moved\n") {
		t.Errorf("without an agent: exit code %d: %s", code, text)
	}
}
