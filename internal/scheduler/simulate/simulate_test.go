package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/value/cpuset"
	_ "github.com/berth-project/berth/test/chance" // fixes the cases of the properties
)

var update = flag.Bool("update", false, "write the golden reports again")

// TestGolden runs whole inputs, one directory each, on the same three machines.
func TestGolden(t *testing.T) {
	for _, name := range []string{"seeds", "pending", "live"} {
		t.Run(name, func(t *testing.T) {
			objects := readFiles(t, "testdata/nodes.yaml", "testdata/"+name)
			got, err := json.MarshalIndent(run(t, New(objects)), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".golden.json", append(got, '\n'))
		})
	}
}

// tester is the common part of a test and a property.
type tester interface {
	Helper()
	Context() context.Context
	Fatal(args ...any)
}

func run(t tester, c *Cluster) Report {
	t.Helper()
	report, err := c.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func readFiles(t testing.TB, names ...string) Objects {
	t.Helper()
	objects, err := Read(names, strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// TestSameInputSameReport checks that neither the order of the nodes nor a second run changes the report.
func TestSameInputSameReport(t *testing.T) {
	run := func(change func(*Objects)) Report {
		objects := readFiles(t, "testdata/nodes.yaml", "testdata/seeds", "testdata/pending")
		change(&objects)
		return run(t, New(objects))
	}
	want := run(func(*Objects) {})
	got := run(func(o *Objects) {
		slices.Reverse(o.Nodes)
		slices.Reverse(o.Topologies)
	})
	if diff := cmp.Diff(text(t, want), text(t, got)); diff != "" {
		t.Errorf("in another order (-first +second):\n%s", diff)
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestRandomWorkloads places random pods and checks invariants. No CPU is given out twice or against the rules, and the
// requests stay within the allocatable amounts. A cluster of the pods as bound by the run must equal the cluster after
// the run.
func TestRandomWorkloads(t *testing.T) {
	nodes := readFiles(t, "testdata/nodes.yaml")
	rapid.Check(t, func(rt *rapid.T) {
		o := Objects{Nodes: nodes.Nodes, Topologies: nodes.Topologies}
		for i := range rapid.IntRange(1, 25).Draw(rt, "pods") {
			o.Pods = append(o.Pods, Pod{Pod: randomPod(rt, i)})
		}
		first := New(o)
		report := run(t, first)
		if len(report.Placements)+len(report.Pending) != len(o.Pods) {
			rt.Fatalf("%d pods, %d placed, %d pending", len(o.Pods), len(report.Placements), len(report.Pending))
		}
		for i := range report.Nodes {
			checkNodeState(rt, &report.Nodes[i], first.nodes[i])
		}
		again := New(Objects{Nodes: o.Nodes, Topologies: o.Topologies, Pods: boundNow(o.Pods, report)})
		for i, n := range again.nodes {
			if n.before != report.Nodes[i].Fragmentation.After {
				rt.Fatalf("%s read back: %+v, was %+v", n.name, n.before, report.Nodes[i].Fragmentation.After)
			}
		}
	})
}

// TestNodesAreNotAskedTwice checks that the results equal those of asking every node for every pod: a pod's node, the
// number of equal nodes, and the reason for waiting.
func TestNodesAreNotAskedTwice(t *testing.T) {
	nodes := readFiles(t, "testdata/nodes.yaml")
	rapid.Check(t, func(rt *rapid.T) {
		o := Objects{Nodes: nodes.Nodes, Topologies: nodes.Topologies}
		var last *v1.Pod
		for i := range rapid.IntRange(1, 40).Draw(rt, "pods") {
			if last == nil || rapid.IntRange(0, 3).Draw(rt, "another") == 0 {
				last = randomPod(rt, i)
			}
			pod := last.DeepCopy()
			pod.Name = fmt.Sprintf("p%d", i)
			switch rapid.IntRange(0, 9).Draw(rt, "more") {
			case 0:
				pod.Spec.NodeSelector = map[string]string{v1.LabelHostname: "node-a"}
			case 1:
				pod.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}}
			case 2:
				pod.Spec.NodeName = "node-b"
			}
			o.Pods = append(o.Pods, Pod{Pod: pod, Preset: pod.Spec.NodeName != ""})
		}
		c, every := New(o), New(o)
		for i, d := range c.pending {
			got, refused := c.choose(d)
			want, reasons := every.bestOf(every.candidates(every.pending[i]), every.pending[i])
			if (got.node == nil) != (want.node == nil) || got.equals != want.equals || got.node != nil && got.node.name != want.node.name {
				rt.Fatalf("%s: %+v, want %+v", d.name(), got.node, want.node)
			}
			if got.node == nil {
				if diff := cmp.Diff(reasons, refused); diff != "" {
					rt.Fatalf("%s (-want +got):\n%s", d.name(), diff)
				}
				continue
			}
			if diff := cmp.Diff(want.commit(every.pending[i]).Containers, got.commit(d).Containers); diff != "" {
				rt.Fatalf("%s (-want +got):\n%s", d.name(), diff)
			}
			c.replies.changed = append(c.replies.changed, got.node)
		}
	})
}

func randomPod(rt *rapid.T, i int) *v1.Pod {
	cpus := rapid.IntRange(1, 12).Draw(rt, "cpus")
	limit := resource.MustParse(fmt.Sprint(cpus))
	request := resource.MustParse(fmt.Sprintf("%dm", rapid.IntRange(0, cpus*1000).Draw(rt, "request")))
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%d", i), Namespace: "default", UID: "uid", Annotations: map[string]string{}},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{
			Limits: v1.ResourceList{v1.ResourceCPU: limit}, Requests: v1.ResourceList{v1.ResourceCPU: request},
		}}}},
	}
	if rapid.Bool().Draw(rt, "pinned") {
		pod.Annotations[v1alpha1.AnnotationCPUSetScheduler] = "true"
		pod.Annotations[v1alpha1.AnnotationResourceSpec] = rapid.SampledFrom([]string{
			`{}`, `{"requiredCPUBindPolicy":"FullPCPUs"}`, `{"preferredCPUBindPolicy":"SpreadByPCPUs"}`,
			`{"preferredCPUExclusivePolicy":"PCPULevel"}`, `{"requiredCPUExclusivePolicy":"NUMANodeLevel"}`,
		}).Draw(rt, "spec")
	}
	return pod
}

func checkNodeState(rt *rapid.T, n *Node, state *node) {
	var all cpuset.Set
	for _, held := range n.Held {
		if held.CPUs.Intersects(all) {
			rt.Fatalf("%s: %s has CPUs %s, of which others have %s", n.Name, held.Pod, held.CPUs, held.CPUs.Intersect(all))
		}
		all = all.Union(held.CPUs)
	}
	pinnable, err := cpuset.Parse(n.Pinnable)
	if err != nil || !all.IsSubsetOf(pinnable) {
		rt.Fatalf("%s: %s is given out, %s may be (%v)", n.Name, all, pinnable, err)
	}
	now := state.state()
	if surplus := now.Surplus(&state.occupancy); surplus < 0 || state.milli > state.allocatable.milli {
		rt.Fatalf("%s: surplus %d, requested %d of %d", n.Name, surplus, state.milli, state.allocatable.milli)
	}
}

// boundNow returns the pods as an API server would have them after the run.
func boundNow(pods []Pod, r Report) []Pod {
	var all []Pod
	for _, p := range pods {
		for _, placed := range r.Placements {
			if placed.Pod != p.Name {
				continue
			}
			bound := p.DeepCopy()
			bound.Spec.NodeName = placed.Node
			bound.Annotations[v1alpha1.AnnotationPlacement] = placed.annotation
			all = append(all, Pod{Pod: bound})
		}
	}
	return all
}

func TestGroupedIsInKubeSchedulersForm(t *testing.T) {
	nodes := []NodeReason{
		{Node: "a", Reasons: []string{"Too many pods", "Insufficient cpu"}},
		{Node: "b", Reasons: []string{"node(s) had fewer than 4 free cores in one NUMA node"}},
		{Node: "c", Reasons: []string{"Insufficient cpu"}},
	}
	want := "0/3 nodes are available: 1 Too many pods, 1 node(s) had fewer than 4 free cores in one NUMA node, 2 Insufficient cpu."
	if got := Grouped(nodes); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := Grouped(nil); got != "there is no node." {
		t.Errorf("no node at all: %s", got)
	}
}

func TestGapsAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for _, gap := range Gaps() {
		if gap.What == "" || gap.Effect == "" || seen[gap.What] {
			t.Errorf("%+v", gap)
		}
		seen[gap.What] = true
	}
}

// TestManifestOfAnyKind checks that kubectl's output can be read back.
func TestManifestOfAnyKind(t *testing.T) {
	file, err := os.ReadFile("testdata/seeds/cal-pi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		string(file),
		"%YAML 1.2\n---\n# nothing here\n---\n" + string(file) + "...\n",
		strings.ReplaceAll(string(file), "\n", "\r\n"),
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"cal-pi"},"spec":{"containers":[{"name":"c"}]}}`,
		`{"apiVersion":"v1","kind":"List","metadata":{"resourceVersion":""},"items":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"cal-pi"},"spec":{"containers":[{"name":"c"}]}}]}`,
		`{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"cal-pi"},"spec":{"containers":[{"name":"c"}]}}]}`,
	} {
		objects, err := Read([]string{"-"}, bytes.NewReader([]byte(text)))
		if err != nil || len(objects.Pods) != 1 || objects.Pods[0].Name != "cal-pi" {
			t.Errorf("%s\ngives %v, %v", text, objects.Pods, err)
		}
	}
	two := `{"apiVersion":"v1","kind":"Service"}{"apiVersion":"v1","kind":"Service"}`
	objects, err := Read([]string{"-"}, strings.NewReader(two))
	if diff := cmp.Diff([]Ignored{{Kind: "v1 Service", Count: 2}}, objects.Ignored); err != nil || diff != "" {
		t.Errorf("JSON stream: %v %s", err, diff)
	}
}
