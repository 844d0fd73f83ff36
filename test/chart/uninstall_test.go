package chart

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const uninstallJob = "Job berth-system/berth-uninstall"

// hooks returns the keys of the objects that Helm installs as hooks.
func hooks(all map[string]object) []string {
	var keys []string
	for key, o := range all {
		if o.at("metadata", "annotations", "helm.sh/hook") != nil {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// TestUninstall checks that a Job makes the agents restore everything before Helm removes anything. Helm creates the
// Job's account and rights first, and removes all of them after success.
func TestUninstall(t *testing.T) {
	all := render(t, newest, "kube-system", "")
	want := []string{
		"ClusterRole /berth-uninstall", "ClusterRoleBinding /berth-uninstall", uninstallJob,
		"Role berth-system/berth-uninstall", "RoleBinding berth-system/berth-uninstall", "ServiceAccount berth-system/berth-uninstall",
	}
	if diff := cmp.Diff(want, hooks(all)); diff != "" {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
	for _, key := range want {
		annotations := map[string]any{
			"helm.sh/hook": "pre-delete", "helm.sh/hook-weight": "-1", "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded",
		}
		if key == uninstallJob {
			annotations["helm.sh/hook-weight"], annotations["helm.sh/hook-output-log-policy"] = "0", "hook-succeeded,hook-failed"
		}
		if diff := cmp.Diff(any(annotations), all[key].at("metadata", "annotations")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", key, diff)
		}
	}
	for text, none := range map[string]bool{
		"uninstall: {restore: false}": true, "agent: {enabled: false}": true, "uninstall: {timeoutSeconds: 60}": false,
	} {
		if got := hooks(render(t, newest, "kube-system", text)); (got == nil) != none {
			t.Errorf("%s: hooks %v", text, got)
		}
	}
}

// TestUninstallWaits checks that the Job waits as long as the value says, plus a minute to start. Helm itself gives up
// after five minutes by default.
func TestUninstallWaits(t *testing.T) {
	for text, want := range map[string]int{"": 240, "uninstall: {timeoutSeconds: 900}": 900, "uninstall: {timeoutSeconds: 2000000}": 0} {
		if want == 0 {
			if _, err := try(t, newest, "kube-system", text); err == nil {
				t.Errorf("%s is taken", text)
			}
			continue
		}
		job := render(t, newest, "kube-system", text)[uninstallJob]
		args, _ := job.at("spec", "template", "spec", "containers", 0, "args").([]any)
		if got := args[len(args)-1]; got != "--timeout="+strconv.Itoa(want)+"s" {
			t.Errorf("%s: %v", text, args)
		}
		if got, _ := job.at("spec", "activeDeadlineSeconds").(float64); time.Duration(got)*time.Second != time.Duration(want)*time.Second+time.Minute {
			t.Errorf("%s: deadline %v", text, got)
		}
	}
}

// TestUninstallImage checks that the Job runs the agents' image, from the same registry.
func TestUninstallImage(t *testing.T) {
	job := render(t, newest, "kube-system", `
agent: {image: {repository: registry.example/berth, tag: v1, pullPolicy: Always}, resources: {requests: {cpu: 1}}}
imagePullSecrets: [{name: registry}]
`)[uninstallJob]
	pod := []any{"spec", "template", "spec"}
	if got := job.at(append(pod, "containers", 0, "image")...); got != "registry.example/berth:v1" {
		t.Errorf("image %v", got)
	}
	if got := job.at(append(pod, "containers", 0, "imagePullPolicy")...); got != "Always" {
		t.Errorf("policy %v", got)
	}
	if got := job.at(append(pod, "imagePullSecrets", 0, "name")...); got != "registry" {
		t.Errorf("secret %v", got)
	}
	if got := job.at(append(pod, "containers", 0, "resources", "requests", "cpu")...); got != "10m" {
		t.Errorf("the resources are the agent's: %v", got)
	}
}
