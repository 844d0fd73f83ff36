package deploy

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/deploy"
	"github.com/berth-project/berth/internal/intent/strategy"
	"github.com/berth-project/berth/internal/node/cluster"
)

// TestDaemonSet checks what an administrator checks first: the pod has no more power over the host than necessary, and
// runs only on nodes with a host to manage.
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

// TestAgentConfiguration decodes the agent's file like the agent, and compares it with the mounts of the DaemonSet.
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

// TestLivenessNeedsNoPort checks that the liveness probe uses no port. If another program has the agent's host port,
// that is no reason to restart the agent.
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

// TestDefaultConfigSaysNothing checks that the shipped berth-config is empty. A key in it would hide the ConfigMaps
// that users of ACK and Koordinator already have.
func TestDefaultConfigSaysNothing(t *testing.T) {
	if data := configMap(t, "berth-config").Data; len(data) > 0 {
		t.Errorf("berth-config has %v", data)
	}
}

// TestNoUserMakesPeersNamespaces checks that the shipped manifests, or Kubernetes itself, create every namespace whose
// ConfigMaps the shipped agents read.
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

// rulesOf returns the rules of both roles of a file.
func rulesOf(t *testing.T, file string) []rbacv1.PolicyRule {
	t.Helper()
	return append(the[*rbacv1.ClusterRole](t, file).Rules, the[*rbacv1.Role](t, file).Rules...)
}

// TestAgentReadsLittle lists every reading verb, compares the ConfigMaps with those that the program reads, and rejects
// wildcards, proxies, secrets and impersonation.
func TestAgentReadsLittle(t *testing.T) {
	var names, reading []string
	for _, name := range strategy.Names() {
		_, short := name.Split()
		names = append(names, short)
	}
	for _, rule := range rulesOf(t, "agent/rbac.yaml") {
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

// viewerFile has the objects for users who view the agent's page.
const viewerFile = "agent/viewer.yaml"

// TestViewerOnlyLooks checks that the viewer role, and so the account, has only two paths and no resource. A pod gets
// the account's token only on request.
func TestViewerOnlyLooks(t *testing.T) {
	rules := the[*rbacv1.ClusterRole](t, viewerFile).Rules
	if len(rules) != 1 || !slices.Equal(rules[0].NonResourceURLs, []string{"/berth/view", "/metrics"}) || !slices.Equal(rules[0].Verbs, []string{"get"}) ||
		len(rules[0].Resources) > 0 || len(rules[0].APIGroups) > 0 {
		t.Errorf("rules %+v", rules)
	}
	account := the[*corev1.ServiceAccount](t, viewerFile)
	if account.AutomountServiceAccountToken == nil || *account.AutomountServiceAccountToken {
		t.Error("pods of the account get its token")
	}
	binding := the[*rbacv1.ClusterRoleBinding](t, viewerFile)
	if len(binding.Subjects) != 1 || binding.Subjects[0].Name != account.Name || binding.Subjects[0].Namespace != account.Namespace {
		t.Errorf("the role is bound to %+v", binding.Subjects)
	}
}

// TestRepackIsForNobody checks that the roles for repacking have only the rights that the command needs, which
// TestRepack compares. The shipped manifests must not bind them.
func TestRepackIsForNobody(t *testing.T) {
	const file = "repack.yaml"
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list"}},
		{APIGroups: []string{""}, Resources: []string{"pods/status"}, Verbs: []string{"patch"}},
		{APIGroups: []string{"berth.dev"}, Resources: []string{"nodetopologies"}, Verbs: []string{"list", "repack"}},
	}
	if diff := cmp.Diff(want, the[*rbacv1.ClusterRole](t, file).Rules); diff != "" {
		t.Errorf("in the cluster (-want +got):\n%s", diff)
	}
	want = []rbacv1.PolicyRule{{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "list"}}}
	role := the[*rbacv1.Role](t, file)
	if diff := cmp.Diff(want, role.Rules); diff != "" || role.Namespace != v1alpha1.DefaultLeaseNamespace {
		t.Errorf("in %s (-want +got):\n%s", role.Namespace, diff)
	}
	for _, m := range manifests(t) {
		switch object := m.object.(type) {
		case *rbacv1.ClusterRoleBinding:
			if object.RoleRef.Name == role.Name {
				t.Errorf("%s binds it to %v", m.file, object.Subjects)
			}
		case *rbacv1.RoleBinding:
			if object.RoleRef.Name == role.Name {
				t.Errorf("%s binds it to %v", m.file, object.Subjects)
			}
		}
	}
}

// TestSecurityExplainsEachRight compares the tables of SECURITY.md with the rules of every role of the manifests, in both
// directions. A table has the rules of the roles of one name. An account also has the roles that it is bound to and that
// no manifest makes.
func TestSecurityExplainsEachRight(t *testing.T) {
	had, told := map[string][]string{}, map[string][]string{}
	for _, m := range manifests(t) {
		switch object := m.object.(type) {
		case *rbacv1.ClusterRole:
			had[object.Name] = append(had[object.Name], rights(object.Rules, "")...)
		case *rbacv1.Role:
			had[object.Name] = append(had[object.Name], rights(object.Rules, inNamespace(object.Namespace))...)
		}
	}
	for _, m := range manifests(t) {
		switch object := m.object.(type) {
		case *rbacv1.ClusterRoleBinding:
			if _, own := had[object.RoleRef.Name]; !own {
				had[object.Subjects[0].Name] = append(had[object.Subjects[0].Name], object.RoleRef.Name)
			}
		case *rbacv1.RoleBinding:
			if _, own := had[object.RoleRef.Name]; !own {
				had[object.Subjects[0].Name] = append(had[object.Subjects[0].Name], object.RoleRef.Name+inNamespace(object.Namespace))
			}
		}
	}
	table := regexp.MustCompile(`(?m)^\| Right of ([a-z-]+) \|[^\n]*\n\|[-|]+\|\n((?:\|[^\n]*\n)+)`)
	for _, match := range table.FindAllStringSubmatch(read(t, "SECURITY.md"), -1) {
		for line := range strings.Lines(match[2]) {
			row := regexp.MustCompile("^\\| `([^`]+)` \\| *[^| ][^|]*\\|").FindStringSubmatch(line)
			if row == nil {
				t.Fatalf("%s: no right, or no reason for it: %s", match[1], line)
			}
			told[match[1]] = append(told[match[1]], row[1])
		}
	}
	for _, all := range []map[string][]string{had, told} {
		for _, rights := range all {
			slices.Sort(rights)
		}
	}
	if diff := cmp.Diff(had, told); diff != "" || len(had) < 5 {
		t.Errorf("rights (-manifests +SECURITY.md):\n%s", diff)
	}
}

// rights returns each rule as the tables of SECURITY.md write it.
func rights(rules []rbacv1.PolicyRule, where string) []string {
	var all []string
	for _, rule := range rules {
		what := strings.Join(append(slices.Clone(rule.Resources), rule.NonResourceURLs...), ", ")
		if len(rule.ResourceNames) > 0 {
			what += " " + strings.Join(rule.ResourceNames, ", ")
		}
		all = append(all, what+where+": "+strings.Join(rule.Verbs, ", "))
	}
	return all
}

func inNamespace(name string) string { return " in " + name }

// TestSecurityNamesTests finds tests that SECURITY.md names and that no longer exist.
func TestSecurityNamesTests(t *testing.T) {
	var sources strings.Builder
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			var source []byte
			source, err = os.ReadFile(path)
			sources.Write(source)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`Test[A-Z][A-Za-z]+`).FindAllString(read(t, "SECURITY.md"), -1)
	if len(names) < 5 {
		t.Errorf("SECURITY.md names %v", names)
	}
	for _, name := range names {
		if !strings.Contains(sources.String(), "func "+name+"(") {
			t.Errorf("SECURITY.md names %s, which is nowhere", name)
		}
	}
}

// TestAgentPolicyKnowsTheProgram compares the names in the policy with those that the agent writes.
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

// TestEmbedded checks that the programs install the content of the files.
func TestEmbedded(t *testing.T) {
	all, err := deploy.Agent()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, one := range all {
		text.Write(one)
	}
	for _, file := range []string{"namespace.yaml", "koordinator-namespace.yaml", "agent/rbac.yaml", "agent/viewer.yaml", "agent/policy.yaml", "agent/config.yaml", "agent/daemonset.yaml"} {
		if !strings.Contains(text.String(), read(t, "deploy/"+file)) {
			t.Errorf("%s is not embedded", file)
		}
	}
}
