package deploy

import (
	"encoding/json"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/api/v1alpha1"
)

// TestPatchesMountKubeletFiles applies each patch of the DaemonSet as kubectl does. It
// adds files of the kubelet where the agent looks for them, read-only, each one by name:
// the directory around them has the secrets of all pods.
func TestPatchesMountKubeletFiles(t *testing.T) {
	shipped, err := json.Marshal(the[*appsv1.DaemonSet](t, "agent/daemonset.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	const (
		config = v1alpha1.DefaultKubeletDir + "/config.yaml"
		state  = v1alpha1.DefaultKubeletDir + "/cpu_manager_state"
		memory = v1alpha1.DefaultKubeletDir + "/memory_manager_state"
	)
	for file, want := range map[string][]string{
		"patch/kubelet-files.yaml": {config, state},
		"patch/kubelet-state.yaml": {state, memory},
	} {
		patch, err := yaml.YAMLToJSON([]byte(read(t, "deploy/"+file)))
		if err != nil {
			t.Fatal(err)
		}
		patched, err := strategicpatch.StrategicMergePatch(shipped, patch, appsv1.DaemonSet{})
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var set appsv1.DaemonSet
		if err := json.Unmarshal(patched, &set); err != nil {
			t.Fatal(err)
		}
		pod := set.Spec.Template.Spec
		paths := map[string]string{}
		for _, v := range pod.Volumes {
			if v.HostPath != nil && *v.HostPath.Type == corev1.HostPathFile {
				paths[v.Name] = v.HostPath.Path
			}
		}
		var got []string
		for _, m := range pod.Containers[0].VolumeMounts {
			if path, ok := paths[m.Name]; ok && m.ReadOnly && m.MountPath == path {
				got = append(got, path)
			}
		}
		slices.Sort(got)
		before := the[*appsv1.DaemonSet](t, "agent/daemonset.yaml").Spec.Template.Spec
		if !slices.Equal(got, want) || len(pod.Containers) != 1 || len(pod.Volumes) != len(before.Volumes)+len(want) ||
			len(pod.Containers[0].VolumeMounts) != len(before.Containers[0].VolumeMounts)+len(want) {
			t.Errorf("%s mounts %v, want %v, in %+v", file, got, want, pod)
		}
	}
}
