package deploy

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/deploy"
	"github.com/berth-project/berth/internal/cluster"
	"github.com/berth-project/berth/internal/strategy"
)

// TestDaemonSet checks what an administrator looks for first: no more power over
// the host than is needed, and no node that has no host.
func TestDaemonSet(t *testing.T) {
	pod := the[*appsv1.DaemonSet](t, "agent/daemonset.yaml").Spec.Template.Spec
	container := pod.Containers[0]
	s := container.SecurityContext
	if *s.Privileged || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || len(s.Capabilities.Add) > 0 || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("security context %+v", s)
	}
	if pod.HostPID || pod.HostIPC || pod.PriorityClassName != "system-node-critical" || pod.NodeSelector[corev1.LabelOSStable] != "linux" {
		t.Errorf("pod %+v", pod)
	}
	if container.LivenessProbe == nil || container.ReadinessProbe == nil || container.Resources.Limits.Cpu().Sign() != 0 {
		t.Error("a probe is missing, or there is a limit of CPU")
	}
	var written []string
	for _, mount := range container.VolumeMounts {
		if !mount.ReadOnly {
			written = append(written, mount.MountPath)
		}
	}
	if want := []string{"/var/lib/berth", "/sys/fs/cgroup", "/run/nri"}; !slices.Equal(written, want) {
		t.Errorf("the host is written at %v, want %v", written, want)
	}
	for _, volume := range pod.Volumes {
		if path := volume.HostPath; path != nil && (*path.Type == corev1.HostPathUnset || path.Path == "/" || path.Path == "/var/lib/kubelet") {
			t.Errorf("volume %s is %s of the host", volume.Name, path.Path)
		}
	}
}

// configMap returns the ConfigMap of a name from the agent's files.
func configMap(t *testing.T, name string) *corev1.ConfigMap {
	t.Helper()
	for _, m := range manifests(t) {
		if c, ok := m.object.(*corev1.ConfigMap); ok && strings.HasPrefix(m.file, "agent/") && c.Name == name {
			return c
		}
	}
	t.Fatalf("no ConfigMap %s", name)
	return nil
}

// TestAgentConfiguration reads the agent's file as the agent does, and compares it
// with what the DaemonSet mounts.
func TestAgentConfiguration(t *testing.T) {
	data, err := yaml.YAMLToJSON([]byte(configMap(t, "berth-agent").Data["agent.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	config, problems := v1alpha1.DecodeAgentConfig(data)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	container := the[*appsv1.DaemonSet](t, "agent/daemonset.yaml").Spec.Template.Spec.Containers[0]
	for _, path := range []string{config.StateDir, "/etc/berth"} {
		if !slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == path }) {
			t.Errorf("%s is not mounted", path)
		}
	}
	probe := container.ReadinessProbe.HTTPGet
	if want := probe.Host + ":" + probe.Port.String(); config.Listen != want {
		t.Errorf("the agent serves on %s and is asked at %s", config.Listen, want)
	}
	if !slices.Contains(container.Args, "--config=/etc/berth/agent.yaml") {
		t.Errorf("arguments %v", container.Args)
	}
}

// TestLivenessNeedsNoPort says that a port of the host which another program has is no
// reason to restart the agent.
func TestLivenessNeedsNoPort(t *testing.T) {
	container := the[*appsv1.DaemonSet](t, "agent/daemonset.yaml").Spec.Template.Spec.Containers[0]
	probe := container.LivenessProbe
	if probe.Exec == nil || probe.HTTPGet != nil || probe.TCPSocket != nil || probe.GRPC != nil {
		t.Fatalf("probe %+v", probe.ProbeHandler)
	}
	var config v1alpha1.AgentConfig
	if err := yaml.Unmarshal([]byte(configMap(t, "berth-agent").Data["agent.yaml"]), &config); err != nil {
		t.Fatal(err)
	}
	if want := append(slices.Clone(container.Command), "agent", "--check-health", "--state-dir="+config.StateDir); !slices.Equal(probe.Exec.Command, want) {
		t.Errorf("command %q, want %q", probe.Exec.Command, want)
	}
}

// TestDefaultConfigSaysNothing: a key in it would hide what stands in the ConfigMaps
// that users of ACK and Koordinator already have.
func TestDefaultConfigSaysNothing(t *testing.T) {
	if data := configMap(t, "berth-config").Data; len(data) > 0 {
		t.Errorf("berth-config has %v", data)
	}
}

// TestNoUserMakesPeersNamespaces says that every namespace whose ConfigMaps the
// shipped agents read is made by the shipped manifests, or by Kubernetes itself.
func TestNoUserMakesPeersNamespaces(t *testing.T) {
	data, err := yaml.YAMLToJSON([]byte(configMap(t, "berth-agent").Data["agent.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	config, problems := v1alpha1.DecodeAgentConfig(data)
	if len(problems) > 0 || !slices.Equal(config.ReadPeerConfig, v1alpha1.PeerConfigs()) {
		t.Errorf("readPeerConfig %v, problems %v", config.ReadPeerConfig, problems)
	}
	made := map[string]bool{"kube-system": true}
	for _, m := range manifests(t) {
		if namespace, ok := m.object.(*corev1.Namespace); ok {
			made[namespace.Name] = true
		}
	}
	for _, name := range strategy.Names() {
		if namespace, _ := name.Split(); !made[namespace] {
			t.Errorf("%s is read, and no manifest makes its namespace", name)
		}
	}
}

// agentRules are the rules of all roles of the agent.
func agentRules(t *testing.T) []rbacv1.PolicyRule {
	t.Helper()
	return append(the[*rbacv1.ClusterRole](t, "agent/rbac.yaml").Rules, the[*rbacv1.Role](t, "agent/rbac.yaml").Rules...)
}

// TestAgentReadsLittle lists every verb that reads, compares the ConfigMaps with
// those of the program, and looks for what must never be there.
func TestAgentReadsLittle(t *testing.T) {
	var names, reading []string
	for _, name := range strategy.Names() {
		_, short := name.Split()
		names = append(names, short)
	}
	for _, rule := range agentRules(t) {
		for _, word := range slices.Concat(rule.Verbs, rule.Resources, rule.APIGroups) {
			if strings.Contains(word, "*") || strings.Contains(word, "proxy") || word == "secrets" || word == "impersonate" {
				t.Errorf("rule %+v has %s", rule, word)
			}
		}
		if slices.Contains(rule.Resources, "configmaps") && !slices.Equal(rule.ResourceNames, names) {
			t.Errorf("ConfigMaps %v, want %v", rule.ResourceNames, names)
		}
		for _, verb := range rule.Verbs {
			if verb == "get" || verb == "list" || verb == "watch" {
				reading = append(reading, verb+" "+strings.Join(rule.Resources, ","))
			}
		}
	}
	want := []string{
		"list pods", "watch pods", "list nodes", "watch nodes", "get nodes/pods,nodes/configz",
		"list configmaps", "watch configmaps", "get nodetopologies", "get leases",
	}
	if !slices.Equal(reading, want) {
		t.Errorf("reading verbs %q, want %q", reading, want)
	}
}

// TestSecurityExplainsEachRight finds a rule that SECURITY.md does not explain, and
// one that it explains and nobody has.
func TestSecurityExplainsEachRight(t *testing.T) {
	var had, told []string
	for _, rule := range agentRules(t) {
		had = append(had, strings.Join(rule.Resources, ", ")+": "+strings.Join(rule.Verbs, ", "))
	}
	_, rest, _ := strings.Cut(read(t, "SECURITY.md"), "| Right of berth-agent |")
	table, _, _ := strings.Cut(rest, "\n\n")
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(table, -1) {
		told = append(told, row[1])
	}
	slices.Sort(had)
	slices.Sort(told)
	if !slices.Equal(had, told) {
		t.Errorf("rights %q, explained are %q", had, told)
	}
}

// TestSecurityNamesTests finds tests that SECURITY.md relies on and that are gone.
func TestSecurityNamesTests(t *testing.T) {
	sources := read(t, "test/cluster/policy_test.go") + read(t, "test/cluster/policy_bound_test.go") + read(t, "test/cluster/rights_test.go") +
		read(t, "test/cluster/agent_rights_test.go") + read(t, "test/cluster/agent_side_test.go") + read(t, "test/deploy/agent_test.go") +
		read(t, "test/deploy/deploy_test.go") + read(t, "internal/cluster/merge_test.go") + read(t, "internal/strategy/strategy_test.go") +
		read(t, "internal/inventory/caps_test.go") + read(t, "test/deploy/patch_test.go") + read(t, "internal/strategy/peers_test.go") + read(t, "internal/workload/caps_test.go") + read(t, "test/deploy/hostpid_test.go") + read(t, "internal/profile/profile_test.go")
	names := regexp.MustCompile(`Test[A-Z][A-Za-z]+`).FindAllString(read(t, "SECURITY.md"), -1)
	if len(names) < 5 {
		t.Errorf("SECURITY.md names %v", names)
	}
	for _, name := range names {
		if !strings.Contains(sources, "func "+name+"(") {
			t.Errorf("SECURITY.md names %s, which is nowhere", name)
		}
	}
}

// TestAgentPolicyKnowsTheProgram compares the policy with what the agent writes.
func TestAgentPolicyKnowsTheProgram(t *testing.T) {
	policy := the[*admissionv1.ValidatingAdmissionPolicy](t, "agent/policy.yaml")
	var text strings.Builder
	for _, v := range policy.Spec.Validations {
		text.WriteString(v.Expression)
	}
	for _, want := range []string{"'" + cluster.Controller + "'", "'" + v1alpha1.DefaultLeaseNamespace + "'"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the policy lacks %s", want)
		}
	}
	if account := "system:serviceaccount:berth-system:berth-agent"; !strings.Contains(policy.Spec.MatchConditions[0].Expression, "'"+account+"'") {
		t.Errorf("the policy is not for %s", account)
	}
}

// TestEmbedded says that programs install what the files say.
func TestEmbedded(t *testing.T) {
	all, err := deploy.Agent()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, one := range all {
		text.Write(one)
	}
	for _, file := range []string{"namespace.yaml", "koordinator-namespace.yaml", "agent/rbac.yaml", "agent/policy.yaml", "agent/config.yaml", "agent/daemonset.yaml"} {
		if !strings.Contains(text.String(), read(t, "deploy/"+file)) {
			t.Errorf("%s is not embedded", file)
		}
	}
}
