package simulate

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/api/v1alpha1"
)

// TestBadInput checks that an error names the document, the field, the value and the permitted values.
func TestBadInput(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
	for _, test := range []struct{ name, text, want string }{
		{"no kind", "apiVersion: v1", "document 1: field kind: missing: allowed: that of a Kubernetes object"},
		{"no version", "kind: Pod", "document 1: field apiVersion: missing"},
		{"no object", "[1, 2]", "document 1: invalid input: value [1,2]: allowed: an object of fields"},
		{"no YAML", "a: b: c", "document 1: invalid input"},
		{"twice", "apiVersion: v1\napiVersion: v1", "document 1: invalid input"},
		{"twice in JSON", `{"apiVersion":"v1","kind":"Pod","kind":"Pod"}`, `duplicate field "kind"`},
		{"second document", pod + "spec: {containers: [{name: c}]}\n---\nkind: Job\napiVersion: batch/v2\n", `document 2: field apiVersion: value "batch/v2": allowed: batch/v1`},
		{"unknown field", pod + "spec: {containers: [{name: c, cpus: 4}]}", "field spec.containers[0].cpus: value 4: allowed: only the fields args, "},
		{"wrong case", pod + "spec: {Containers: []}", "field spec.Containers: value []: allowed: only the fields "},
		{"unquoted", "apiVersion: v1\nkind: Pod\nmetadata: {name: p, annotations: {cpuset-scheduler: true}}\nspec: {containers: [{name: c}]}", "field metadata.annotations[cpuset-scheduler]: value true: allowed: a string (put it in quotes)"},
		{"wrong kind of value", pod + "spec: {priority: high, containers: [{name: c}]}", `field spec.priority: value "high": allowed: a whole number`},
		{"beyond 32 bits", pod + "spec: {priority: 3000000000, containers: [{name: c}]}", `field spec.priority: value 3000000000: allowed: a whole number`},
		{"list expected", pod + "spec: {containers: {name: c}}", `field spec.containers: value {"name":"c"}: allowed: a list`},
		{"no quantity", pod + "spec: {containers: [{name: c, resources: {limits: {cpu: four}}}]}", `field spec.containers[0].resources.limits[cpu]: value "four": allowed: a quantity such as "4", "500m" or "8Gi"`},
		{"endless quantity", pod + "spec: {containers: [{name: c, resources: {limits: {cpu: 1e999999999}}}]}", `value "1e999999999": allowed: a quantity`},
		{"negative", pod + `spec: {containers: [{name: c, resources: {limits: {cpu: -1}}}]}`, `field spec.containers[0].resources.limits[cpu]: value "-1": allowed: 0 to 1000000 CPUs`},
		{"too much", pod + `spec: {containers: [{name: c, resources: {limits: {memory: 2Pi}}}]}`, `value "2Pi": allowed: 0 to 1Pi`},
		{"request above limit", pod + "spec: {containers: [{name: c, resources: {limits: {cpu: 1}, requests: {cpu: 2}}}]}", `field spec.containers[0].resources.requests[cpu]: value "2": allowed: at most the limit, 1`},
		{"bad time", "apiVersion: v1\nkind: Pod\nmetadata: {name: p, creationTimestamp: yesterday}\nspec: {containers: [{name: c}]}", `field metadata.creationTimestamp: value "yesterday": allowed: a Time`},
		{"no container", pod + "spec: {}", "field spec.containers: missing: allowed: at least one container"},
		{"container twice", pod + "spec: {containers: [{name: c}, {name: c}]}", `field spec.containers[1].name: value "c": allowed: a name that no other container of the pod has`},
		{"no name", "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: c}]}", "field metadata.name: missing: allowed: a name"},
		{"hostile name", "apiVersion: v1\nkind: Pod\nmetadata: {name: \"a\\nb\"}\nspec: {containers: [{name: c}]}", `field metadata.name: value "a\nb": allowed: a name`},
		{"hostile namespace", "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: a.b}\nspec: {containers: [{name: c}]}", `field metadata.namespace: value "a.b"`},
		{"name twice", pod + "spec: {containers: [{name: c}]}\n---\n" + pod + "spec: {containers: [{name: c}]}", `document 2: field metadata.name: value "p": allowed: a name used once; it is also in -: document 1`},
		{"template", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {selector: {}, template: {spec: {}}}", "field spec.template.spec.containers: missing"},
		{"replicas", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {replicas: -1, selector: {}, template: {spec: {containers: [{name: c}]}}}", "field spec.replicas: value -1 pods numbered from 0: allowed: 0 or more"},
		{"very many replicas", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {replicas: 2000000000, selector: {}, template: {spec: {containers: [{name: c}]}}}", "field spec.replicas: value 2000000000 pods numbered from 0: allowed: 0 or more, and at most 100000 pods in total"},
		{"bad affinity", pod + "spec: {containers: [{name: c}], affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: k, operator: Is}]}]}}}}", "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"},
		{"inside a list", "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {}}]", "document 1: field items[0].spec.containers: missing"},
		{"list of what", "apiVersion: v1\nkind: List\nitems: [3]", "field items[0]: value 3: allowed: an object of fields"},
		{"taint", "apiVersion: v1\nkind: Node\nmetadata: {name: node}\nspec: {taints: [{key: k, effect: Never}]}", `field spec.taints[0].effect: value "Never": allowed: NoSchedule, PreferNoSchedule, NoExecute`},
		{"hash", topologyText("hash: 0123456789abcdef", "0-1"), "field spec: value "},
		{"overlap", topologyText("", "0-1, 1-2"), "field spec: value "},
		{"many CPUs", topologyText("", "0-2000"), "0 to 1023"},
		{"depth", strings.Repeat("[", 100_000), "invalid input"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Read([]string{"-"}, strings.NewReader(test.text))
			if !errors.Is(err, v1alpha1.ErrInvalid) {
				t.Fatalf("error %v, want one of class ErrInvalid", err)
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

func topologyText(hash, cores string) string {
	return "apiVersion: berth.dev/v1alpha1\nkind: NodeTopology\nmetadata: {name: node}\nspec: {" + strings.TrimPrefix(hash+", ", ", ") +
		"online: 0-1, numaNodes: [{id: 0, cpus: 0-1, distances: [10]}], cores: [" + cores + "]}"
}

// TestEveryProblemIsReported checks that one run reports all problems.
func TestEveryProblemIsReported(t *testing.T) {
	_, err := Read([]string{"testdata/absent.yaml"}, nil)
	if !errors.Is(err, v1alpha1.ErrInvalid) || !strings.Contains(err.Error(), "absent.yaml") {
		t.Errorf("absent file: %v", err)
	}
	dir := t.TempDir()
	write(t, dir, "a.yaml", "kind: Pod\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {one: 1, two: 2}\n")
	write(t, dir, "b.json", `{"apiVersion": "v1"}`)
	write(t, dir, "c.yml", "a: b: c")
	write(t, dir, "notes.txt", "no manifest")
	_, err = Read([]string{dir}, nil)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"a.yaml: document 1: field apiVersion", "a.yaml: document 2: field spec.one", "a.yaml: document 2: field spec.two",
		"b.json: document 1: field kind", "c.yml: document 1",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "notes.txt") {
		t.Errorf("notes.txt was read: %v", err)
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestNothingToRead(t *testing.T) {
	empty := t.TempDir()
	for _, names := range [][]string{nil, {empty}, {"-", "-"}} {
		if _, err := Read(names, strings.NewReader("")); !errors.Is(err, v1alpha1.ErrInvalid) {
			t.Errorf("%q: error %v, want one of class ErrInvalid", names, err)
		}
	}
}

// TestWorkloadsBecomePods checks the names, numbers and defaults of pods from workloads.
func TestWorkloadsBecomePods(t *testing.T) {
	const template = `template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, resources: {limits: {cpu: 2}}}]}}`
	objects, err := Read([]string{"-"}, strings.NewReader(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec: {selector: {}, `+template+`}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec: {replicas: 2, ordinals: {start: 3}, selector: {}, serviceName: web, `+template+`}
---
apiVersion: batch/v1
kind: Job
metadata: {name: sum}
spec: {parallelism: 5, completions: 2, `+template+`}
---
apiVersion: batch/v1
kind: Job
metadata: {name: later}
spec: {suspend: true, `+template+`}
---
apiVersion: v1
kind: Pod
metadata: {generateName: one-}
spec: {containers: [{name: c}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range objects.Pods {
		got = append(got, p.Namespace+"/"+p.name()+" of "+p.From)
	}
	want := []string{
		"shop/web-0 of Deployment shop/web",
		"default/web-3 of StatefulSet default/web", "default/web-4 of StatefulSet default/web",
		"default/sum-0 of Job default/sum", "default/sum-1 of Job default/sum",
		"default/one-0 of ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if request := objects.Pods[0].Spec.Containers[0].Resources.Requests.Cpu(); request.Value() != 2 {
		t.Errorf("request %v, want that of the limit", request)
	}
}

// TestTopologyCommandsOutputIsANode checks that the output of berth topology is a node with the name of the file.
func TestTopologyCommandsOutputIsANode(t *testing.T) {
	dir := t.TempDir()
	machine, err := os.ReadFile("../../../testdata/machines/two-socket-ht.golden.json")
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "big-1.json", string(machine))
	report := run(t, New(readFiles(t, dir, "testdata/seeds/cal-pi.yaml")))
	if len(report.Placements) != 1 || report.Placements[0].Node != "big-1" {
		t.Errorf("placements %+v", report.Placements)
	}
	write(t, dir, "big-1.yaml", "apiVersion: berth.dev/v1alpha1\nkind: NodeTopology\nmetadata: {name: big-1}\nspec: {online: 0-1, numaNodes: [{id: 0, cpus: 0-1, distances: [10]}], cores: [0-1]}")
	if _, err := Read([]string{dir}, nil); err == nil || !strings.Contains(err.Error(), "a name used once") {
		t.Errorf("two machines of one name: %v", err)
	}
	write(t, dir, "BIG.json", `{"cores": [{"cpus": "0"}, {"cpus": "0"}]}`)
	if _, err := Read([]string{filepath.Join(dir, "BIG.json")}, nil); err == nil || !strings.Contains(err.Error(), "small letters") {
		t.Errorf("name: %v", err)
	}
	write(t, dir, "bad.json", `{"cores": [{"cpus": "0"}, {"cpus": "0"}]}`)
	if _, err := Read([]string{filepath.Join(dir, "bad.json")}, nil); err == nil || !strings.Contains(err.Error(), "cores[1].cpus") {
		t.Errorf("contradiction: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	for _, name := range []string{"nodes.yaml", "pending/pods.yaml", "live/pods.yaml", "seeds/nginx.yaml"} {
		text, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		objects, err := Read([]string{"-"}, strings.NewReader(text))
		if err != nil {
			if !errors.Is(err, v1alpha1.ErrInvalid) {
				t.Errorf("error %v of another class", err)
			}
			return
		}
		if len(objects.Pods) < 100 && len(objects.Topologies) < 100 {
			run(t, New(objects))
		}
	})
}
