package simulate

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/rest"

	"github.com/berth-project/berth/api/v1alpha1"
)

// liveCluster returns the cluster of the manifests, with every Node that it needs.
func liveCluster(t *testing.T) *Cluster {
	t.Helper()
	return New(readFiles(t, "testdata/nodes.yaml", "testdata/live"))
}

func TestExplain(t *testing.T) {
	for _, test := range []struct{ namespace, pod string }{
		{"shop", "old"}, {"shop", "unknown"}, {"shop", "forged"}, {"shop", "lost"}, {"default", "low"}, {"default", "two"},
	} {
		t.Run(test.pod, func(t *testing.T) {
			x, found := liveCluster(t).Explain(test.namespace, test.pod)
			if !found {
				t.Fatal("not found")
			}
			golden(t, "explain-"+test.pod+".golden.json", []byte(text(t, x)+"\n"))
		})
	}
}

// TestVirtualMachines checks that a pod in a virtual machine gets no CPUs, and that none are reserved for it.
func TestVirtualMachines(t *testing.T) {
	o := readFiles(t, "testdata/nodes.yaml", "testdata/live")
	class := "kata"
	for i := range o.Pods {
		o.Pods[i].Spec.RuntimeClassName = &class
	}
	c := New(o)
	for _, name := range []string{"old", "unknown"} {
		x, _ := c.Explain("shop", name)
		if x.Pinned || len(x.Containers) > 0 || len(x.Warnings) != 1 || !strings.Contains(x.Warnings[0], "kata starts a virtual machine") {
			t.Errorf("%s: %s", name, text(t, x))
		}
	}
	for _, n := range c.nodes {
		if n.occupancy.Unknown > 0 || !n.occupancy.Taken.CPUs().IsEmpty() {
			t.Errorf("node %s: %s are held, and %d more", n.name, n.occupancy.Taken.CPUs(), n.occupancy.Unknown)
		}
	}
}

// TestExplainKeyless checks that a pod keeps its CPUs when its annotations disappear. It also checks a pod without a
// placement that could never get one.
func TestExplainKeyless(t *testing.T) {
	o := readFiles(t, "testdata/nodes.yaml", "testdata/live")
	for i := range o.Pods {
		switch p := o.Pods[i]; p.Name {
		case "old":
			delete(p.Annotations, v1alpha1.AnnotationCPUSetScheduler)
		case "unknown":
			for j := range p.Spec.Containers {
				p.Spec.Containers[j].Resources.Limits[v1.ResourceCPU] = resource.MustParse("5000")
			}
		}
	}
	c := New(o)
	x, _ := c.Explain("shop", "old")
	if len(x.Containers) == 0 || !strings.Contains(strings.Join(x.Notes, "\n"), "does not ask for CPUs any more") {
		t.Errorf("without keys: %s", text(t, x))
	}
	x, _ = c.Explain("shop", "unknown")
	if len(x.Notes) != 1 || !strings.Contains(x.Notes[0], "counts with its request only") {
		t.Errorf("too large: %s", text(t, x))
	}
}

func TestExplainPending(t *testing.T) {
	c := New(readFiles(t, "testdata/nodes.yaml", "testdata/pending"))
	x, found := c.Explain("default", "elsewhere")
	want := "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."
	if !found || x.State != Waiting || x.Reason != want || len(x.Nodes) != 3 {
		t.Errorf("%t %+v", found, x)
	}
	x, _ = c.Explain("default", "spread")
	if x.State != Placeable || len(x.NotSimulated) == 0 || x.Pinned {
		t.Errorf("%+v", x)
	}
	x, _ = c.Explain("default", "quoted")
	if len(x.Warnings) != 1 || !strings.Contains(x.Warnings[0], `"yes"`) || x.Pinned {
		t.Errorf("%+v", x)
	}
	if _, found := c.Explain("shop", "elsewhere"); found {
		t.Error("found in another namespace")
	}
	if diff := cmp.Diff([]string{"db-5", "db-6"}, c.PodNames("shop")); diff != "" {
		t.Error(diff)
	}
}

// TestExplainMovedPod checks that the explanation names better CPUs that are free by now.
func TestExplainMovedPod(t *testing.T) {
	o := readFiles(t, "testdata/nodes.yaml")
	pod := readFiles(t, "testdata/seeds/cal-pi.yaml").Pods[0]
	pod.Spec.NodeName = "node-a"
	pod.Annotations[v1alpha1.AnnotationPlacement] = `{"v":1,"topology":"0000000000000000","containers":{"cal-pi":{"cpus":"0,1,8,9","mems":"0-1","policy":"exclusive"}}}`
	o.Pods = []Pod{pod}
	x, _ := New(o).Explain("default", "cal-pi")
	why := map[string][2]int{}
	for _, reason := range x.Why {
		why[reason.Term] = [2]int{reason.Value, reason.Best}
	}
	want := map[string][2]int{"numaNodes": {2, 1}, "l3s": {2, 1}, "split": {4, 0}}
	if diff := cmp.Diff(want, why); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if x.Better != "0-1,16-17" || len(x.Notes) != 1 || !strings.Contains(x.Notes[0], "36ccc28dd5eafc0a") {
		t.Errorf("better %q, notes %q", x.Better, x.Notes)
	}
}

// TestExplainFarOfBoundPod checks that the explanation of a bound pod names memory that is not that of its CPUs' NUMA
// nodes, and devices that these nodes do not have.
func TestExplainFarOfBoundPod(t *testing.T) {
	const (
		both     = "memory of NUMA nodes 0-1, not only of NUMA node 0"
		other    = "memory of NUMA node 0, not of NUMA node 1"
		again    = "; a new placement on its CPUs would bind it there"
		devices  = "kinds of devices that its NUMA nodes do not have in full beside other pods: "
		gpus     = "  devices: [{resource: example.com/gpu, perNUMANode: [4, 4]}]\n"
		fourGPUs = "{cpu: 2, memory: 1Gi, example.com/gpu: 4}"
	)
	for _, test := range []struct {
		name, machine, resources, cpus, mems string
		beside                               string // the CPUs of a pod of node 0 with four GPUs
		keyless                              bool
		want                                 []string
	}{
		{"near", farMachine, "{cpu: 2, memory: 1Gi}", "0-1", "0", "", false, nil},
		{"room by now", farMachine, "{cpu: 2, memory: 1Gi}", "0-1", "0-1", "", false, []string{both + again}},
		{
			"too much", farMachine, "{cpu: 2, memory: 9800Mi}", "0-1", "0-1", "", false,
			[]string{both + "; now not known to fit NUMA node 0 beside what else is requested"},
		},
		{"no bound", farMachine, "{cpu: 2}", "0-1", "0-1", "", false, []string{"no memory limit or request: memory of all NUMA nodes"}},
		{"no bound any more", farMachine, "{cpu: 2}", "4-5", "0", "", false, []string{other}},
		{"moved", farMachine, "{cpu: 2, memory: 1Gi}", "4-5", "0", "", false, []string{other + again}},
		{"does not ask any more", farMachine, "{cpu: 2, memory: 1Gi}", "4-5", "0", "", true, []string{other}},
		{
			"no memory there", farMachine, "{cpu: 2, memory: 1Gi}", "8-9", "0-1", "", false,
			[]string{"NUMA node 2 has no memory: every access from CPUs there is remote"},
		},
		{"near its devices", hugeMachine + gpus, fourGPUs, "8-9", "1", "2-3", false, nil},
		{"far from its devices", hugeMachine + gpus, fourGPUs, "0-1", "0", "2-3", false, []string{devices + "1; a new placement would have 0"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := strings.ReplaceAll(test.machine, "metadata: {name: far}", "metadata: {name: huge}")
			text += boundText("asks", test.resources, test.cpus, test.mems, !test.keyless)
			if test.beside != "" {
				text += boundText("beside", fourGPUs, test.beside, "0", true)
			}
			o, err := Read([]string{"-"}, strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			x, _ := New(o).Explain("default", "asks")
			var got []string
			for _, reason := range x.Why {
				if reason.Term == "mems" || reason.Term == "remote" || reason.Term == "farDevices" {
					got = append(got, reason.Text)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("notes %q (-want +got):\n%s", x.Notes, diff)
			}
		})
	}
}

// boundText is the manifest of a pod of the node huge, with the CPUs and memory nodes that it holds.
func boundText(name, limits, cpus, mems string, asks bool) string {
	key := ""
	if asks {
		key = "cpuset-scheduler: 'true', "
	}
	placement := `{"v":1,"topology":"0000000000000000","containers":{"main":{"cpus":"` + cpus + `","mems":"` + mems + `","policy":"exclusive"}}}`
	return "---\n{apiVersion: v1, kind: Pod, metadata: {name: " + name + ", annotations: {" + key + v1alpha1.AnnotationPlacement + ": '" + placement + "'}}, " +
		"spec: {nodeName: huge, containers: [{name: main, resources: {limits: " + limits + "}}]}, status: {phase: Running}}\n"
}

// fakeAPI is an API server with three lists.
type fakeAPI struct {
	objects Objects
	noCRD   bool
	asked   []string
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.asked = append(f.asked, r.URL.Path)
	w.Header().Set("Content-Type", "application/json")
	var list any
	switch r.URL.Path {
	case "/api/v1/nodes":
		list = v1.NodeList{Items: f.objects.Nodes}
	case "/api/v1/pods":
		var pods v1.PodList
		for _, p := range f.objects.Pods {
			pods.Items = append(pods.Items, *p.Pod)
		}
		list = pods
	case "/apis/berth.dev/v1alpha1/nodetopologies":
		if f.noCRD {
			http.NotFound(w, r)
			return
		}
		list = v1alpha1.NodeTopologyList{Items: f.objects.Topologies}
	default:
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(list)
}

func TestObserve(t *testing.T) {
	api := &fakeAPI{objects: readFiles(t, "testdata/nodes.yaml", "testdata/live")}
	server := httptest.NewServer(api)
	defer server.Close()
	got, err := Observe(t.Context(), &rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Nodes) != 2 || len(got.Topologies) != 2 || len(got.Pods) != len(api.objects.Pods) {
		t.Errorf("%d nodes, %d topologies (node-c is no node), %d pods", len(got.Nodes), len(got.Topologies), len(got.Pods))
	}
	if diff := cmp.Diff([]string{"/api/v1/nodes", "/apis/berth.dev/v1alpha1/nodetopologies", "/apis/coordination.k8s.io/v1/namespaces/berth-system/leases", "/api/v1/pods"}, api.asked); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	api.noCRD = true
	if _, err := Observe(t.Context(), &rest.Config{Host: server.URL}); !errors.Is(err, ErrNoTopologies) {
		t.Errorf("without the kind: %v", err)
	}
	server.Close()
	if _, err := Observe(t.Context(), &rest.Config{Host: server.URL}); err == nil || !strings.Contains(err.Error(), server.URL) {
		t.Errorf("without a server: %v", err)
	}
}
