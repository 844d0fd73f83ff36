package deploy

import (
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-project/berth/internal/cli"
	"github.com/berth-project/berth/internal/intent/strategy"
)

// TestUninstallJob checks that the Job runs a command line that the program accepts, is not root, has no capability,
// and may change only the ConfigMap of the agents.
func TestUninstallJob(t *testing.T) {
	job := the[*batchv1.Job](t, "uninstall/job.yaml")
	pod := job.Spec.Template.Spec
	if account := job.Namespace + "/" + pod.ServiceAccountName; account != "berth-system/berth-uninstall" || len(pod.Containers) != 1 || len(pod.Volumes) > 0 || pod.HostNetwork {
		t.Fatalf("it runs as %s: %+v", account, pod)
	}
	c := pod.Containers[0]
	cmd, rest, err := cli.Command(cli.Program{Name: "berth"}).Find(append(slices.Clone(c.Command[1:]), c.Args...))
	if err != nil || cmd.Name() != "rollback" || cmd.ParseFlags(rest) != nil {
		t.Fatalf("the program does not take %v: %v", c.Args, err)
	}
	timeout, err := cmd.Flags().GetDuration("timeout")
	if limit := time.Duration(*job.Spec.ActiveDeadlineSeconds) * time.Second; err != nil || timeout >= limit || *job.Spec.BackoffLimit != 0 {
		t.Errorf("it waits for %v of %v: %v", timeout, limit, err)
	}
	s := c.SecurityContext
	if !*pod.SecurityContext.RunAsNonRoot || *pod.SecurityContext.RunAsUser == 0 || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem ||
		!slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("it may do too much: %+v, %+v", pod.SecurityContext, s)
	}
	for _, rule := range rulesOf(t, "uninstall/rbac.yaml") {
		_, name := strategy.BerthConfig.Split()
		if slices.Contains(rule.Resources, "configmaps") && !slices.Equal(rule.ResourceNames, []string{name}) {
			t.Errorf("ConfigMaps %v, want %s", rule.ResourceNames, name)
		}
	}
}
