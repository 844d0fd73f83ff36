package simulate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/intent/kubepod"
	"github.com/berth-project/berth/internal/linux/topology"
)

// Objects is the content of a cluster, from manifests or from its API.
type Objects struct {
	// Nodes are the core/v1 nodes; a NodeTopology may exist without a Node.
	Nodes []v1.Node
	// Topologies are in any order.
	Topologies []v1alpha1.NodeTopology
	// Pods are in the order of creation.
	Pods []Pod
	// Ignored are the documents of other kinds, by kind.
	Ignored []Ignored
	// Agents are the states of the agents, in a live cluster.
	Agents Agents

	podKinds int // documents that are pods, or create pods
}

// Complete checks that there is something to place, and a node for it. Input without either is probably a mistake:
// v1alpha1.ErrInvalid.
func (o *Objects) Complete() error {
	var missing []error
	if len(o.Nodes) == 0 && len(o.Topologies) == 0 {
		missing = append(missing, errNoNode)
	}
	if len(o.Pods) == 0 && o.podKinds == 0 {
		missing = append(missing, errNoPod)
	}
	if len(missing) == 0 {
		return nil
	}
	return invalid("--filename", errors.Join(missing...))
}

// Pod is one pod, from its own document or expanded from a workload.
type Pod struct {
	// Pod is shared by the replicas of a workload, and has the name of the workload then.
	*v1.Pod
	// Replica is the name of a replica, "web-0"; empty for a plain pod.
	Replica string
	// From names the workload, "Deployment shop/web"; empty for a plain pod.
	From string
	// Preset is true if the manifest names the node: the scheduler has not placed the pod, and will not be asked.
	Preset bool
}

func (p *Pod) name() string { return cmp.Or(p.Replica, p.Name) }

// Ignored counts documents of one kind.
type Ignored struct {
	// Kind is "apiVersion kind".
	Kind string `json:"kind"`
	// Count is how many there were.
	Count int `json:"count"`
}

// maxPods bounds the total number of pods from all workloads.
const maxPods = 100_000

// Read reads manifests: files, directories, and "-" for stdin, as YAML or JSON streams. It reports every problem, not
// only the first; all are v1alpha1.ErrInvalid and name file, document, field, value and the allowed values.
func Read(names []string, stdin io.Reader) (Objects, error) {
	docs, err := documents(names, stdin)
	r := reader{ignored: map[string]int{}, seen: map[string]string{}}
	for _, d := range docs {
		r.document(d.where, "", d.object)
	}
	if err != nil || len(r.problems) > 0 {
		return Objects{}, joinProblems(err, r.problems)
	}
	for _, kind := range slices.Sorted(maps.Keys(r.ignored)) {
		r.objects.Ignored = append(r.objects.Ignored, Ignored{Kind: kind, Count: r.ignored[kind]})
	}
	return r.objects, nil
}

// join returns the path of a field of an object.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// index returns the path of an element of a list.
func index(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

func joinProblems(err error, problems v1alpha1.FieldErrors) error {
	switch {
	case err == nil:
		return problems.Err()
	case len(problems) == 0:
		return err
	default:
		return fmt.Errorf("%w\n%w", err, problems)
	}
}

type reader struct {
	objects  Objects
	ignored  map[string]int
	seen     map[string]string // kind, namespace and name -> place
	problems v1alpha1.FieldErrors
}

// document reads one object; path is its place inside a List.
func (r *reader) document(where, path string, object map[string]any) {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	if object["kind"] == nil && object["apiVersion"] == nil && object["cores"] != nil {
		r.machine(where, path, object)
		return
	}
	if kind == "" || apiVersion == "" {
		field := map[bool]string{true: "kind", false: "apiVersion"}[kind == ""]
		r.refuse(where, join(path, field), object[field], "that of a Kubernetes object, such as v1 Pod or "+v1alpha1.APIVersion+" NodeTopology")
		return
	}
	if items, isList := object["items"].([]any); isList && strings.HasSuffix(kind, "List") {
		r.list(where, path, object, items)
		return
	}
	want, known := kinds()[kind]
	group, _, _ := strings.Cut(want, "/")
	switch {
	case !known || apiVersion != want && (!strings.Contains(want, "/") || !strings.HasPrefix(apiVersion, group+"/")):
		r.ignored[apiVersion+" "+kind]++
	case apiVersion != want:
		r.refuse(where, join(path, "apiVersion"), apiVersion, want)
	default:
		r.add(where, path, kind, object)
	}
}

// kinds returns the kinds that a simulation uses, with their version.
func kinds() map[string]string {
	return map[string]string{
		"Node": "v1", "Pod": "v1", "Deployment": "apps/v1", "StatefulSet": "apps/v1", "Job": "batch/v1",
		"NodeTopology": v1alpha1.APIVersion,
	}
}

// list reads the items of a List. In a typed list they may lack their kind.
func (r *reader) list(where, path string, list map[string]any, items []any) {
	for i, item := range items {
		at := join(path, index("items", i))
		object, ok := item.(map[string]any)
		if !ok {
			r.refuse(where, at, item, errNoObject.Error())
			continue
		}
		kind, _ := list["kind"].(string)
		if single := strings.TrimSuffix(kind, "List"); single != "" && object["kind"] == nil {
			object = maps.Clone(object)
			object["kind"], object["apiVersion"] = single, list["apiVersion"]
		}
		r.document(where, at, object)
	}
}

// add reads one object of a known kind.
func (r *reader) add(where, path, kind string, object map[string]any) {
	if kind != "Node" && kind != v1alpha1.KindNodeTopology {
		r.objects.podKinds++
	}
	switch kind {
	case "Node":
		read(r, where, path, object, r.node)
	case "NodeTopology":
		read(r, where, path, object, r.topology)
	case "Pod":
		read(r, where, path, object, r.pod)
	case "Deployment":
		read(r, where, path, object, func(d *appsv1.Deployment) v1alpha1.FieldErrors {
			return r.replicas(&d.ObjectMeta, kind, copies{template: d.Spec.Template, count: atLeastOne(d.Spec.Replicas)})
		})
	case "StatefulSet":
		read(r, where, path, object, func(s *appsv1.StatefulSet) v1alpha1.FieldErrors {
			c := copies{template: s.Spec.Template, count: atLeastOne(s.Spec.Replicas)}
			if s.Spec.Ordinals != nil {
				c.first = s.Spec.Ordinals.Start
			}
			return r.replicas(&s.ObjectMeta, kind, c)
		})
	case "Job":
		read(r, where, path, object, func(j *batchv1.Job) v1alpha1.FieldErrors {
			return r.replicas(&j.ObjectMeta, kind, copies{template: j.Spec.Template, count: atOnce(j.Spec), counted: "spec.parallelism"})
		})
	}
}

// read decodes an object strictly and passes it to take. It records problems with their place.
func read[T any](r *reader, where, path string, object map[string]any, take func(*T) v1alpha1.FieldErrors) {
	var target T
	problems := v1alpha1.DecodeObject(object, &target)
	if len(problems) == 0 {
		problems = take(&target)
	}
	for _, p := range problems {
		p.File = where
		p.Field = strings.TrimSuffix(join(path, p.Field), ".")
		r.problems = append(r.problems, p)
	}
	if len(problems) == 0 {
		r.once(where, path, object)
	}
}

// once refuses a second object of the same kind, namespace and name.
func (r *reader) once(where, path string, object map[string]any) {
	meta, _ := object["metadata"].(map[string]any)
	namespace, _ := meta["namespace"].(string)
	key := fmt.Sprint(object["kind"], " ", cmp.Or(namespace, v1.NamespaceDefault), "/", meta["name"])
	if first, twice := r.seen[key]; twice {
		r.refuse(where, join(path, "metadata.name"), meta["name"], "a name used once; it is also in "+first)
		return
	}
	r.seen[key] = where
}

// machine reads the output of "berth topology -o json" as a node with the name of its file.
func (r *reader) machine(where, path string, object map[string]any) {
	file, _, _ := strings.Cut(where, ": ")
	name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	if problems := checkName("", name); problems != nil {
		r.refuse(where, "", name, "a file whose name is that of the node, in small letters")
		return
	}
	text, err := json.Marshal(object)
	if err == nil {
		var t *topology.Topology
		if t, err = topology.Decode(text); err == nil {
			r.objects.Topologies = append(r.objects.Topologies, nodeTopology(name, t))
			r.once(where, path, map[string]any{"kind": v1alpha1.KindNodeTopology, "metadata": map[string]any{"name": name}})
			return
		}
	}
	r.refuse(where, path, object, "a machine as berth topology -o json prints it: "+err.Error())
}

func nodeTopology(name string, t *topology.Topology) v1alpha1.NodeTopology {
	var n v1alpha1.NodeTopology
	n.Name, n.Spec = name, t.Spec()
	return n
}

func (r *reader) refuse(where, field string, value any, allowed string) {
	problem := v1alpha1.FieldError{File: where, Field: field, Allowed: allowed}
	if value != nil {
		problem.Value = v1alpha1.Show(value)
	}
	r.problems = append(r.problems, problem)
}

func (r *reader) node(n *v1.Node) v1alpha1.FieldErrors {
	r.objects.Nodes = append(r.objects.Nodes, *n)
	return checkNode(n)
}

func (r *reader) topology(t *v1alpha1.NodeTopology) v1alpha1.FieldErrors {
	if problems := checkName("metadata.name", t.Name); problems != nil {
		return problems
	}
	var err error
	if t.Spec.Hash == "" { // written by hand
		t.Spec.Hash, err = topology.HashOf(t.Spec)
	} else {
		_, err = topology.FromSpec(t.Spec)
	}
	if err != nil {
		return v1alpha1.FieldErrors{{Field: "spec", Value: v1alpha1.Show(t.Spec), Allowed: "a machine that does not contradict itself: " + err.Error()}}
	}
	r.objects.Topologies = append(r.objects.Topologies, *t)
	return nil
}

func (r *reader) pod(p *v1.Pod) v1alpha1.FieldErrors {
	if p.Name == "" && p.GenerateName != "" {
		p.Name = p.GenerateName + "0"
	}
	if kubepod.Complete(p) {
		r.ignored["completed Pod"]++
		return nil
	}
	p.Namespace = cmp.Or(p.Namespace, v1.NamespaceDefault)
	preset := p.Spec.NodeName != "" && p.Status.Phase == ""
	kubepod.SetDefaults(p)
	r.objects.Pods = append(r.objects.Pods, Pod{Pod: p, Preset: preset})
	return checkPod("", &p.ObjectMeta, &p.Spec)
}
