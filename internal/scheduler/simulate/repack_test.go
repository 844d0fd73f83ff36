package simulate

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// halves are two machines with two NUMA nodes of eight CPUs, each half full. The first has one movable pod and one that
// is not, the second has two that are not.
const halves = `
{{NODE}}
---
{apiVersion: v1, kind: Pod, metadata: {name: NAME-a, annotations: {cpuset-scheduler: "true", berth.dev/movable: "MOVABLE",
  berth.dev/placement: '{"v":1,"topology":"0123456789abcdef","containers":{"app":{"cpus":"0-1,8-9","mems":"0-1","policy":"exclusive"}}}'}},
  spec: {nodeName: NAME, containers: [{name: app, resources: {requests: {cpu: 4}, limits: {cpu: 4}}}]}, status: {phase: Running}}
---
{apiVersion: v1, kind: Pod, metadata: {name: NAME-b, annotations: {cpuset-scheduler: "true",
  berth.dev/placement: '{"v":1,"topology":"0123456789abcdef","containers":{"app":{"cpus":"4-5,12-13","mems":"0-1","policy":"exclusive"}}}'}},
  spec: {nodeName: NAME, containers: [{name: app, resources: {requests: {cpu: 4}, limits: {cpu: 4}}}]}, status: {phase: Running}}
---
`

const halvedNode = `{apiVersion: berth.dev/v1alpha1, kind: NodeTopology, metadata: {name: NAME}, spec: {online: 0-15,
  sockets: [{id: 0, cpus: "0-3,8-11"}, {id: 1, cpus: "4-7,12-15"}],
  numaNodes: [{id: 0, cpus: "0-3,8-11", memoryBytes: 8589934592, distances: [10, 21]}, {id: 1, cpus: "4-7,12-15", memoryBytes: 8589934592, distances: [21, 10]}],
  l3: [{id: 0, cpus: "0-3,8-11"}, {id: 1, cpus: "4-7,12-15"}],
  cores: ["0,8", "1,9", "2,10", "3,11", "4,12", "5,13", "6,14", "7,15"]}}`

const waitingPods = `
{apiVersion: apps/v1, kind: Deployment, metadata: {name: c}, spec: {replicas: 2, selector: {matchLabels: {app: c}}, template: {
  metadata: {labels: {app: c}, annotations: {cpuset-scheduler: "true", scheduling.koordinator.sh/numa-topology-spec: '{"numaTopologyPolicy":"SingleNUMANode"}'}},
  spec: {containers: [{name: app, resources: {requests: {cpu: 6}, limits: {cpu: 6}}}]}}}}
`

func halved(t *testing.T) *Cluster {
	t.Helper()
	text := waitingPods
	for name, movable := range map[string]string{"n1": "true", "n2": "false"} {
		text += "---" + strings.NewReplacer("{{NODE}}", halvedNode).Replace(halves)
		text = strings.NewReplacer("NAME", name, "MOVABLE", movable).Replace(text)
	}
	file := filepath.Join(t.TempDir(), "halves.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return New(readFiles(t, file))
}

const (
	lacksCPUs   = "0/2 nodes are available: 2 node(s) had fewer than 6 free CPUs in one NUMA node."
	fitsWithOne = "0/2 nodes are available: 1 node(s) fit after repack of 1 move(s), 2 node(s) had fewer than 6 free CPUs in one NUMA node."
)

// TestNodesSayRepack checks that nodes with a repack plan report it if plans are enabled, also for replicas, and that
// no node does otherwise.
func TestNodesSayRepack(t *testing.T) {
	for plans, want := range map[bool]string{false: lacksCPUs, true: fitsWithOne} {
		c := halved(t)
		if plans {
			c.PlanRepacks()
		}
		r := run(t, c)
		if len(r.Pending) != 2 || r.Pending[1].SameAs != "default/c-0" || r.Pending[0].Reason != want || r.Pending[1].Reason != want {
			t.Errorf("with plans: %t: %s, want twice %q", plans, text(t, r.Pending), want)
		}
		for _, n := range r.Pending[0].Nodes {
			if says := slices.Contains(n.Reasons, "node(s) fit after repack of 1 move(s)"); says != (plans && n.Node == "n1") {
				t.Errorf("with plans: %t: node %s says %q", plans, n.Node, n.Reasons)
			}
		}
	}
}

// TestExplainRepack checks that the explanation of a waiting pod contains the plan, and that there is none for a pod
// that no move helps.
func TestExplainRepack(t *testing.T) {
	c := halved(t)
	x, _ := c.Explain("default", "c-0")
	if x.Reason != fitsWithOne || x.Repack == nil || x.Repack.Node != "n1" || len(x.Repack.Moves) != 1 || x.Repack.Moves[0].Pod != "default/n1-a" {
		t.Errorf("explained: %s", text(t, x))
	}
	gated := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gated", Annotations: c.all[0].pod.Annotations},
		Spec:       v1.PodSpec{SchedulingGates: []v1.PodSchedulingGate{{Name: "later"}}, Containers: c.all[0].pod.Spec.Containers},
	}
	c.all = append(c.all, &demand{pod: Pod{Pod: gated}, request: requestOf(gated)})
	if x, _ = c.Explain("default", "gated"); x.Repack != nil || !strings.Contains(strings.Join(x.Notes, ""), lacksCPUs) {
		t.Errorf("a pod that a gate holds back: %s", text(t, x))
	}
}
