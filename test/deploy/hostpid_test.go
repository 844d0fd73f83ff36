package deploy

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/deploy"
)

// TestHostPIDAddsRightsOnly applies the variant as kubectl and kustomize do, and compares the DaemonSet field by field
// with the shipped one. The variant must add the host's process ids and three capabilities and drop the security
// profile, without any other difference.
func TestHostPIDAddsRightsOnly(t *testing.T) {
	want := the[*appsv1.DaemonSet](t, "agent/daemonset.yaml").DeepCopy()
	shipped, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	text, err := deploy.HostPID()
	if err != nil {
		t.Fatal(err)
	}
	patch, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	patched, err := strategicpatch.StrategicMergePatch(shipped, patch, appsv1.DaemonSet{})
	if err != nil {
		t.Fatal(err)
	}
	var got appsv1.DaemonSet
	if err := json.Unmarshal(patched, &got); err != nil {
		t.Fatal(err)
	}
	want.Spec.Template.Spec.HostPID = true
	s := want.Spec.Template.Spec.Containers[0].SecurityContext
	s.Capabilities.Add = []corev1.Capability{"DAC_READ_SEARCH", "SYS_NICE", "SYS_PTRACE"}
	s.SeccompProfile.Type = corev1.SeccompProfileTypeUnconfined
	s.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	if diff := cmp.Diff(want, &got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestKustomizations checks that the whole installation consists of the files that the directory manifests links to. A
// file in manifests that is no link to a file of deploy is an error.
// The variant must consist of the files that kubectl apply -f deploy/agent applies, and of its one patch.
func TestKustomizations(t *testing.T) {
	type kustomize struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Resources  []string `json:"resources"`
		Patches    []struct {
			Path string `json:"path"`
		} `json:"patches,omitempty"`
	}
	load := func(dir string) (k kustomize) {
		if err := yaml.UnmarshalStrict([]byte(read(t, "deploy/"+dir+"/"+kustomization)), &k); err != nil {
			t.Fatal(err)
		}
		if k.APIVersion != "kustomize.config.k8s.io/v1beta1" || k.Kind != "Kustomization" {
			t.Errorf("%s: %s %s", dir, k.APIVersion, k.Kind)
		}
		return k
	}
	if whole, want := load("."), linked(t); !slices.Equal(slices.Sorted(slices.Values(whole.Resources)), want) || len(whole.Patches) > 0 {
		t.Errorf("deploy: %+v, want the resources %v", whole, want)
	}
	files, err := filepath.Glob(filepath.Join(root, "deploy/agent/*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	if agent := load("agent"); !slices.Equal(agent.Resources, files) || len(agent.Patches) > 0 {
		t.Errorf("deploy/agent: %+v, want the resources %v", agent, files)
	}
	variant := load("hostpid")
	if !slices.Equal(variant.Resources, []string{"../agent"}) || len(variant.Patches) != 1 || variant.Patches[0].Path != "daemonset.yaml" {
		t.Errorf("deploy/hostpid: %+v", variant)
	}
}

// linked returns the sorted paths below deploy of the files that manifests links to. For the files of deploy/agent,
// which has a Kustomization of its own, it returns the directory.
func linked(t *testing.T) []string {
	t.Helper()
	base, err := filepath.EvalSymlinks(filepath.Join(root, "deploy"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, pattern := range []string{"manifests/setup/*.yaml", "manifests/*.yaml"} {
		links, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(links) == 0 {
			t.Fatalf("%d files %s: %v", len(links), pattern, err)
		}
		for _, link := range links {
			target, err := filepath.EvalSymlinks(link)
			if err != nil {
				t.Fatal(err)
			}
			name, err := filepath.Rel(base, target)
			if err != nil {
				t.Fatal(err)
			}
			if filepath.Dir(name) == "agent" {
				name = "agent"
			}
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
