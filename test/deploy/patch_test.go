package deploy

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/api/v1alpha1"
)

// patched returns the shipped DaemonSet with a patch, as kubectl applies it.
func patched(t *testing.T, file string) appsv1.DaemonSet {
	t.Helper()
	shipped, err := json.Marshal(the[*appsv1.DaemonSet](t, "agent/daemonset.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	patch, err := yaml.YAMLToJSON([]byte(read(t, "deploy/"+file)))
	if err != nil {
		t.Fatal(err)
	}
	text, err := strategicpatch.StrategicMergePatch(shipped, patch, appsv1.DaemonSet{})
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	var set appsv1.DaemonSet
	if err := json.Unmarshal(text, &set); err != nil {
		t.Fatal(err)
	}
	return set
}

// TestPatchServesTLS applies the patch with which agents serve beyond loopback. The agents must have the Secret,
// read-only, and the probe must use TLS; everything else must stay.
func TestPatchServesTLS(t *testing.T) {
	const file = "patch/agent-tls.yaml"
	pod, before := patched(t, file).Spec.Template.Spec, the[*appsv1.DaemonSet](t, "agent/daemonset.yaml").Spec.Template.Spec
	container, probe := pod.Containers[0], pod.Containers[0].ReadinessProbe.HTTPGet
	if probe.Scheme != corev1.URISchemeHTTPS || probe.Path != "/readyz" || probe.Host != "127.0.0.1" {
		t.Errorf("probe %+v", probe)
	}
	var dir string
	for _, v := range pod.Volumes {
		for _, m := range container.VolumeMounts {
			if v.Secret != nil && m.Name == v.Name && m.ReadOnly && *v.Secret.DefaultMode == 0o400 {
				dir = m.MountPath
			}
		}
	}
	if text := read(t, "deploy/"+file); dir == "" || !strings.Contains(text, "certFile: "+dir+"/tls.crt, keyFile: "+dir+"/tls.key") {
		t.Errorf("the Secret is at %q, and the agent's file of the patch names another place", dir)
	}
	if len(pod.Volumes) != len(before.Volumes)+1 || len(container.VolumeMounts) != len(before.Containers[0].VolumeMounts)+1 || container.SecurityContext == nil || container.LivenessProbe == nil {
		t.Errorf("pod %+v", pod)
	}
}

// TestPatchesMountKubeletFiles applies each patch of the DaemonSet as kubectl does. A patch must mount the kubelet's
// files read-only at the paths that the agent reads, and only these files: their directory contains the secrets of all
// pods.
func TestPatchesMountKubeletFiles(t *testing.T) {
	const (
		config = v1alpha1.DefaultKubeletDir + "/config.yaml"
		state  = v1alpha1.DefaultKubeletDir + "/cpu_manager_state"
		memory = v1alpha1.DefaultKubeletDir + "/memory_manager_state"
	)
	for file, want := range map[string][]string{
		"patch/kubelet-files.yaml": {config, state},
		"patch/kubelet-state.yaml": {state, memory},
	} {
		pod := patched(t, file).Spec.Template.Spec
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
