package chart

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"
)

const (
	deploy = "../../deploy"
	dir    = deploy + "/chart"
	newest = "v1.36.0"
)

// object is one Kubernetes document.
type object map[string]any

// key identifies an object by kind, namespace and name.
func (o object) key() string {
	metadata, _ := o["metadata"].(map[string]any)
	namespace, _ := metadata["namespace"].(string)
	kind, _ := o["kind"].(string)
	name, _ := metadata["name"].(string)
	return kind + " " + namespace + "/" + name
}

// at returns the value at a path. A number in the path is the index of a list element.
func (o object) at(path ...any) any {
	var v any = map[string]any(o)
	for _, step := range path {
		switch key := step.(type) {
		case string:
			inner, _ := v.(map[string]any)
			v = inner[key]
		case int:
			list, _ := v.([]any)
			if key >= len(list) {
				return nil
			}
			v = list[key]
		}
	}
	return v
}

func load(t *testing.T) *chartv2.Chart {
	t.Helper()
	c, err := loader.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// values parses YAML as helm install parses a values file.
func values(t *testing.T, text string) map[string]any {
	t.Helper()
	v := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// try renders the chart for one version of Kubernetes.
func try(t *testing.T, kubernetes, namespace, text string) (map[string]string, error) {
	t.Helper()
	version, err := common.ParseKubeVersion(kubernetes)
	if err != nil {
		t.Fatal(err)
	}
	capabilities := common.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *version
	c := load(t)
	all, err := util.ToRenderValues(c, values(t, text), common.ReleaseOptions{Name: "berth", Namespace: namespace, IsInstall: true, Revision: 1}, capabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(c, all)
}

// render returns the objects of the chart by their keys.
func render(t *testing.T, kubernetes, namespace, text string) map[string]object {
	t.Helper()
	files, err := try(t, kubernetes, namespace, text)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]object{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if filepath.Ext(name) != ".yaml" {
			continue
		}
		for _, o := range objects(t, []byte(files[name])) {
			if _, twice := all[o.key()]; twice {
				t.Errorf("%s is there twice", o.key())
			}
			all[o.key()] = o
		}
	}
	return all
}

// objects splits a file into its documents.
func objects(t *testing.T, text []byte) []object {
	t.Helper()
	var all []object
	for document := range bytes.SplitSeq(append([]byte("\n"), text...), []byte("\n---\n")) {
		o := object{}
		if err := yaml.UnmarshalStrict(document, &o); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if len(o) > 0 {
			all = append(all, o)
		}
	}
	return all
}

// manifests reads files below deploy/, as kustomize and kubectl apply do.
func manifests(t *testing.T, names ...string) map[string]object {
	t.Helper()
	all := map[string]object{}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(deploy, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects(t, text) {
			all[o.key()] = o
		}
	}
	return all
}

// unset removes the fields that only the chart sets, and checks that they are present.
func unset(t *testing.T, all map[string]object) {
	t.Helper()
	drop := func(key, name string, path ...any) {
		o, there := all[key]
		if !there {
			return
		}
		inner, _ := o.at(path...).(map[string]any)
		if _, set := inner[name]; !set {
			t.Errorf("%s: no %s at %v", key, name, path)
		}
		delete(inner, name)
	}
	for key, program := range map[string]string{
		"DaemonSet berth-system/berth-agent": "berth", "Deployment berth-system/berth-scheduler": "berth-scheduler",
		uninstallJob: "berth",
	} {
		if container, there := all[key].at("spec", "template", "spec", "containers", 0).(map[string]any); there {
			if container["image"] != program+":dev" {
				t.Errorf("%s has the image %v", key, container["image"])
			}
			container["image"] = program
		}
		drop(key, "imagePullPolicy", "spec", "template", "spec", "containers", 0)
		if key != uninstallJob {
			drop(key, "annotations", "spec", "template", "metadata")
		}
	}
	for _, key := range hooks(all) {
		drop(key, "annotations", "metadata")
	}
	drop("Namespace /berth-system", "annotations", "metadata")
	drop("Namespace /koordinator-system", "annotations", "metadata")
	drop("CustomResourceDefinition /nodetopologies.berth.dev", "helm.sh/resource-policy", "metadata", "annotations")
}

// TestIsTheManifests renders each mode with default values. Every object must equal the file that users without Helm
// install.
func TestIsTheManifests(t *testing.T) {
	shared := []string{
		"namespace.yaml", "koordinator-namespace.yaml", "crd/berth.dev_nodetopologies.yaml", "policy/keys.yaml", "policy/placement.yaml",
		"agent/config.yaml", "agent/policy.yaml", "agent/rbac.yaml", "repack.yaml", "agent/viewer.yaml", "agent/daemonset.yaml",
		"uninstall/rbac.yaml", "uninstall/job.yaml",
	}
	for mode, files := range map[string][]string{
		"off":        nil,
		"'off'":      nil,
		"sideBySide": {"scheduler/side-by-side.yaml", "scheduler/rbac.yaml", "scheduler/deployment.yaml"},
		"replace":    {"scheduler/replace.yaml", "scheduler/rbac.yaml", "scheduler/deployment.yaml"},
	} {
		t.Run(mode, func(t *testing.T) {
			got := render(t, newest, "kube-system", "scheduler: {mode: "+mode+"}")
			unset(t, got)
			if diff := cmp.Diff(manifests(t, append(slices.Clone(shared), files...)...), got); diff != "" {
				t.Errorf("objects (-deploy +chart):\n%s", diff)
			}
		})
	}
}

// only returns the sorted keys of objects of some kinds.
func only(all map[string]object, kinds ...string) []string {
	var keys []string
	for key := range all {
		if kind, _, _ := strings.Cut(key, " "); slices.Contains(kinds, kind) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// TestPolicies checks that the chart has the admission policies from Kubernetes 1.32 on, or as the values say.
func TestPolicies(t *testing.T) {
	all := []string{
		"ValidatingAdmissionPolicy /agent.berth.dev", "ValidatingAdmissionPolicy /placement.berth.dev",
		"ValidatingAdmissionPolicy /pod-keys.berth.dev", "ValidatingAdmissionPolicy /repack.berth.dev", "ValidatingAdmissionPolicy /template-keys.berth.dev",
	}
	for _, c := range []struct {
		kubernetes, values string
		want               []string
	}{
		{"v1.31.4", "{}", nil},
		{"v1.32.0", "{}", all},
		{"v1.32.0-eks-1", "{}", all},
		{"v1.31.4", "policies: 'on'", all},
		{"v1.31.4", "policies: on", all},
		{"v1.36.0", "policies: off", nil},
		{"v1.36.0", "policies: 'off'", nil},
		{"v1.36.0", "agent: {enabled: false}", all[1:]},
		{"v1.36.0", "raiseRequests: true", append([]string{"MutatingAdmissionPolicy /raise-requests.berth.dev"}, all...)},
	} {
		rendered := render(t, c.kubernetes, "kube-system", c.values)
		if diff := cmp.Diff(c.want, only(rendered, "ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")); diff != "" {
			t.Errorf("%s, %s (-want +got):\n%s", c.kubernetes, c.values, diff)
		}
	}
	if _, err := try(t, "v1.35.0", "kube-system", "raiseRequests: true"); err == nil || !strings.Contains(err.Error(), "1.36") {
		t.Errorf("raiseRequests before Kubernetes 1.36: %v", err)
	}
}

// TestNamespaceOfTheRelease checks that the chart omits the namespace of the release. Helm creates that namespace
// before it applies the chart, and then refuses the same namespace in the chart.
func TestNamespaceOfTheRelease(t *testing.T) {
	for namespace, want := range map[string]bool{"berth-system": false, "kube-system": true} {
		if _, there := render(t, newest, namespace, "")["Namespace /berth-system"]; there != want {
			t.Errorf("installed into %s, the chart has the namespace: %t", namespace, there)
		}
	}
}

// TestKept checks which objects Helm keeps when the release is removed: the definition of NodeTopology, which other
// programs also use, and the namespaces, because whatever others put into a namespace is deleted with it.
func TestKept(t *testing.T) {
	const definition = "CustomResourceDefinition /nodetopologies.berth.dev"
	namespaces := []string{"Namespace /berth-system", "Namespace /koordinator-system"}
	for text, want := range map[string][]string{
		"":                            append([]string{definition}, namespaces...),
		"crds: {delete: true}":        namespaces,
		"crds: {install: false}":      namespaces,
		"koordinatorNamespace: false": {definition, namespaces[0]},
	} {
		var kept []string
		for key, o := range render(t, newest, "kube-system", text) {
			if o.at("metadata", "annotations", "helm.sh/resource-policy") == "keep" {
				kept = append(kept, key)
			}
		}
		slices.Sort(kept)
		if diff := cmp.Diff(want, kept); diff != "" {
			t.Errorf("kept with %q (-want +got):\n%s", text, diff)
		}
	}
	if _, there := render(t, newest, "kube-system", "crds: {delete: true}")[definition]; !there {
		t.Error("crds.delete omits the definition")
	}
	if _, there := render(t, newest, "kube-system", "crds: {install: false}")[definition]; there {
		t.Error("crds.install: false has the definition")
	}
}

// TestLint runs helm lint for the oldest supported Kubernetes and a new version.
func TestLint(t *testing.T) {
	for _, kubernetes := range []string{"v1.31.0", newest} {
		version, err := common.ParseKubeVersion(kubernetes)
		if err != nil {
			t.Fatal(err)
		}
		linter := lint.RunAll(dir, map[string]any{}, "kube-system", lint.WithKubeVersion(version))
		for _, message := range linter.Messages {
			if message.Severity >= support.WarningSev {
				t.Errorf("%s: %v", kubernetes, message)
			}
		}
	}
}

// TestOldKubernetes checks the range of Kubernetes versions that the chart declares.
func TestOldKubernetes(t *testing.T) {
	if got := load(t).Metadata.KubeVersion; got != ">=1.31.0-0" {
		t.Errorf("kubeVersion is %q", got)
	}
}
