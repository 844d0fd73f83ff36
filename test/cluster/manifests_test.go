package cluster

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// kubectl runs kubectl as the administrator, and returns its standard output.
func (s *stand) kubectl(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), s.programs.Kubectl, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig(), "KUBECACHEDIR="+t.TempDir())
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, said.Bytes())
	}
	return out
}

// byKey returns the objects of a file by kind, namespace and name.
func byKey(t *testing.T, text []byte) map[string]unstructured.Unstructured {
	t.Helper()
	all := map[string]unstructured.Unstructured{}
	for document := range bytes.SplitSeq(append([]byte("\n"), text...), []byte("\n---\n")) {
		var o unstructured.Unstructured
		must(t, yaml.Unmarshal(document, &o.Object))
		if len(o.Object) > 0 {
			all[o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName()] = o
		}
	}
	return all
}

// kustomized returns the objects that kustomize, which is part of kubectl, makes of a directory.
func (s *stand) kustomized(t *testing.T, dir string) map[string]unstructured.Unstructured {
	t.Helper()
	return byKey(t, s.kubectl(t, "kustomize", dir))
}

// documentedKustomization returns a directory with the file of docs/install.md and this source tree.
func documentedKustomization(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "install.md"))
	must(t, err)
	const begin = "apiVersion: kustomize.config.k8s.io/"
	_, rest, there := strings.Cut(string(text), "```yaml\n"+begin)
	if !there {
		t.Fatal("docs/install.md has no Kustomization")
	}
	file, _, _ := strings.Cut(rest, "```")
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(begin+file), 0o600))
	tree, err := filepath.Abs(root)
	must(t, err)
	must(t, os.Symlink(tree, filepath.Join(dir, "berth")))
	return dir
}

// withImages replaces the placeholders of both images as the file of docs/install.md does.
func withImages(t *testing.T, all map[string]unstructured.Unstructured) {
	t.Helper()
	for key, program := range map[string]string{
		"DaemonSet berth-system/berth-agent": "berth", "Deployment berth-system/berth-scheduler": "berth-scheduler",
	} {
		path := []string{"spec", "template", "spec", "containers"}
		containers, _, err := unstructured.NestedSlice(all[key].Object, path...)
		must(t, err)
		if len(containers) != 1 {
			t.Fatalf("%s has the containers %v", key, containers)
		}
		container, _ := containers[0].(map[string]any)
		if container["image"] != program {
			t.Fatalf("%s has the image %v, want the placeholder %s", key, container["image"], program)
		}
		container["image"] = "registry.example/" + program + ":VERSION"
		must(t, unstructured.SetNestedSlice(all[key].Object, containers, path...))
	}
}

// TestManifestDirectories installs Berth by the two commands of docs/install.md, on a real API server. kustomize must
// make the same objects of deploy, and by the file of docs/install.md with other images only.
func TestManifestDirectories(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	want := map[string]unstructured.Unstructured{}
	for _, dir := range []string{filepath.Join(root, "manifests", "setup"), filepath.Join(root, "manifests")} {
		s.kubectl(t, "apply", "-f", dir+"/")
		files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
		must(t, err)
		objects := map[string]unstructured.Unstructured{}
		for _, file := range files {
			text, err := os.ReadFile(file)
			must(t, err)
			maps.Copy(objects, byKey(t, text))
		}
		if there := strings.Fields(string(s.kubectl(t, "get", "-f", dir+"/", "-o", "name"))); len(there) != len(objects) || len(there) == 0 {
			t.Errorf("%s has %d objects, and kubectl applied %q", dir, len(objects), there)
		}
		maps.Copy(want, objects)
	}
	if diff := cmp.Diff(want, s.kustomized(t, filepath.Join(root, "deploy"))); diff != "" {
		t.Errorf("deploy by kustomize (-manifests +kustomize):\n%s", diff)
	}
	withImages(t, want)
	if diff := cmp.Diff(want, s.kustomized(t, documentedKustomization(t))); diff != "" {
		t.Errorf("the documented file by kustomize (-manifests +kustomize):\n%s", diff)
	}
}
