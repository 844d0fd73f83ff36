// Package deploy compares the manifests below deploy/ with the types of the API server and kube-scheduler, with each
// other, and with the program. It finds misspelled fields, roles that no manifest creates, and values that the program
// does not know. test/cluster asks a real API server what only that can decide, such as whether it accepts a CEL rule.
// The package has tests only.
package deploy

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/api/v1alpha1"
)

const root = "../.."

// kustomization is the name of the file that tells kustomize how to assemble a directory. It has no extension, so that
// kubectl apply -f ignores it.
const kustomization = "Kustomization"

// manifest is one document of a file below deploy/.
type manifest struct {
	file   string // Relative to deploy/.
	text   []byte
	object runtime.Object // Nil for a CustomResourceDefinition, whose type is not imported.
}

// name returns the kind and name of a manifest.
func (m manifest) name(t *testing.T) (kind, name string) {
	t.Helper()
	var head metav1.PartialObjectMetadata
	if err := yaml.Unmarshal(m.text, &head); err != nil {
		t.Fatalf("%s: %v", m.file, err)
	}
	return head.Kind, head.Name
}

// strict decodes a document like an API server that refuses unknown fields.
func strict(t *testing.T, text []byte) (runtime.Object, error) {
	t.Helper()
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, schedulerv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(known); err != nil {
			t.Fatal(err)
		}
	}
	object, _, err := serializer.NewCodecFactory(known, serializer.EnableStrict).UniversalDeserializer().Decode(text, nil, nil)
	return object, err
}

// manifests reads everything below deploy/.
func manifests(t *testing.T) []manifest {
	t.Helper()
	var all []manifest
	base := filepath.Join(root, "deploy")
	err := filepath.WalkDir(base, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && entry.Name() == "chart" {
			return filepath.SkipDir // Templates of these manifests: test/chart renders them.
		}
		if err != nil || entry.IsDir() || filepath.Ext(path) == ".go" || entry.Name() == kustomization {
			return err
		}
		file, _ := filepath.Rel(base, path)
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, document := range documents(text) {
			m := manifest{file: file, text: document}
			if kind, _ := m.name(t); kind != "CustomResourceDefinition" {
				if m.object, err = strict(t, document); err != nil {
					t.Errorf("%s: %v in\n%s", file, err, document)
				}
			}
			all = append(all, m)
		}
		return nil
	})
	if err != nil || len(all) == 0 {
		t.Fatalf("%d manifests: %v", len(all), err)
	}
	return all
}

// documents splits a file into documents, without those that contain only comments.
func documents(text []byte) [][]byte {
	var all [][]byte
	for document := range bytes.SplitSeq(append([]byte("\n"), text...), []byte("\n---\n")) {
		if bytes.Contains(document, []byte("kind:")) {
			all = append(all, document)
		}
	}
	return all
}

// the returns the only object of a type in a file.
func the[T runtime.Object](t *testing.T, file string) T {
	t.Helper()
	var found []T
	for _, m := range manifests(t) {
		if object, ok := m.object.(T); ok && m.file == file {
			found = append(found, object)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d objects of that type in deploy/%s, want 1", len(found), file)
	}
	return found[0]
}

// TestManifestsAreDistinct decodes all manifests strictly, and finds two that would overwrite each other. The two
// scheduler modes overwrite each other on purpose.
func TestManifestsAreDistinct(t *testing.T) {
	seen := map[string]string{}
	for _, m := range manifests(t) {
		if dir := path.Dir(filepath.ToSlash(m.file)); dir == "patch" || dir == "hostpid" {
			continue // it changes an object of another file
		}
		kind, name := m.name(t)
		namespace := ""
		if object, ok := m.object.(metav1.Object); ok {
			namespace = object.GetNamespace()
		}
		key := strings.Join([]string{kind, namespace, name}, " ")
		if other, twice := seen[key]; twice && kind != "ConfigMap" {
			t.Errorf("%s is in %s and in %s", key, other, m.file)
		}
		seen[key] = m.file
	}
}

// TestDefinitionFitsTheType compares the printed columns with the fields of a NodeTopology.
func TestDefinitionFitsTheType(t *testing.T) {
	var definition struct {
		Spec struct {
			Group, Scope string
			Names        struct{ Plural, Kind string }
			Versions     []struct {
				Name                     string
				Subresources             map[string]any
				AdditionalPrinterColumns []struct{ Name, JSONPath string }
			}
		}
	}
	for _, m := range manifests(t) {
		if m.file == "crd/berth.dev_nodetopologies.yaml" {
			if err := yaml.Unmarshal(m.text, &definition); err != nil {
				t.Fatal(err)
			}
		}
	}
	spec := definition.Spec
	if spec.Group != v1alpha1.GroupName || spec.Names.Plural != v1alpha1.NodeTopologyResource || spec.Names.Kind != v1alpha1.KindNodeTopology || spec.Scope != "Cluster" {
		t.Errorf("the definition is of %+v", spec)
	}
	if len(spec.Versions) != 1 || spec.Versions[0].Name != v1alpha1.GroupVersion().Version || spec.Versions[0].Subresources["status"] == nil {
		t.Fatalf("versions %+v", spec.Versions)
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1alpha1.NodeTopology{})
	if err != nil {
		t.Fatal(err)
	}
	object["status"], err = runtime.DefaultUnstructuredConverter.ToUnstructured(&v1alpha1.NodeTopologyStatus{Counts: v1alpha1.NodeTopologyCounts{CPUs: 1}})
	if err != nil {
		t.Fatal(err)
	}
	for _, column := range spec.Versions[0].AdditionalPrinterColumns {
		if path := strings.Split(strings.Trim(column.JSONPath, "."), "."); !strings.Contains(column.JSONPath, "[") && !reaches(object, path) {
			t.Errorf("column %s prints %s, which no NodeTopology has", column.Name, column.JSONPath)
		}
	}
}

func reaches(object map[string]any, path []string) bool {
	if path[0] == "metadata" {
		return true
	}
	value, found := object[path[0]]
	if inner, ok := value.(map[string]any); ok && len(path) > 1 {
		return reaches(inner, path[1:])
	}
	return found && len(path) == 1
}

// configuration returns the scheduler's configuration of one mode.
func configuration(t *testing.T, file string) *schedulerv1.KubeSchedulerConfiguration {
	t.Helper()
	text := the[*corev1.ConfigMap](t, file).Data["config.yaml"]
	object, err := strict(t, []byte(text))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	config, ok := object.(*schedulerv1.KubeSchedulerConfiguration)
	if !ok {
		t.Fatalf("%s holds a %T", file, object)
	}
	return config
}

// TestModes compares the two modes with their documentation.
func TestModes(t *testing.T) {
	for _, mode := range []struct {
		file, lease string
		profiles    []string
	}{
		{"scheduler/side-by-side.yaml", "berth-system/berth-scheduler", []string{"berth-scheduler"}},
		{"scheduler/replace.yaml", "kube-system/kube-scheduler", []string{"default-scheduler", "berth-scheduler"}},
	} {
		t.Run(mode.file, func(t *testing.T) {
			config := configuration(t, mode.file)
			var names []string
			for _, profile := range config.Profiles {
				names = append(names, *profile.SchedulerName)
				checkProfile(t, profile)
			}
			if !slices.Equal(names, mode.profiles) {
				t.Errorf("profiles %v, want %v", names, mode.profiles)
			}
			election := config.LeaderElection
			if lease := election.ResourceNamespace + "/" + election.ResourceName; !*election.LeaderElect || lease != mode.lease {
				t.Errorf("the leader is elected by %s, want %s", lease, mode.lease)
			}
		})
	}
}

// checkProfile checks that Berth is in multiPoint, with more weight than plugins that only count amounts, and is the
// first to bind.
func checkProfile(t *testing.T, profile schedulerv1.KubeSchedulerProfile) {
	t.Helper()
	points := profile.Plugins.MultiPoint.Enabled
	if len(points) != 1 || points[0].Name != "Berth" || points[0].Weight == nil || *points[0].Weight <= 1 {
		t.Errorf("multiPoint enables %+v", points)
	}
	var binders []string
	for _, plugin := range profile.Plugins.Bind.Enabled {
		binders = append(binders, plugin.Name)
	}
	off := profile.Plugins.Bind.Disabled
	if !slices.Equal(binders, []string{"Berth", "DefaultBinder"}) || len(off) != 1 || off[0].Name != "*" {
		t.Errorf("bind enables %v and disables %v", binders, off)
	}
	if len(profile.PluginConfig) != 1 || profile.PluginConfig[0].Name != "Berth" {
		t.Fatalf("pluginConfig %+v", profile.PluginConfig)
	}
	if _, problems := v1alpha1.DecodeSchedulerArgs(profile.PluginConfig[0].Args.Raw); len(problems) > 0 {
		t.Error(problems)
	}
}

// TestDeployment checks what a cluster's administrator checks first.
func TestDeployment(t *testing.T) {
	deployment := the[*appsv1.Deployment](t, "scheduler/deployment.yaml")
	pod := deployment.Spec.Template.Spec
	if *deployment.Spec.Replicas != 2 || !*pod.SecurityContext.RunAsNonRoot || len(pod.Containers) != 1 {
		t.Errorf("deployment %+v", deployment.Spec)
	}
	container := pod.Containers[0]
	if s := container.SecurityContext; !*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("security context %+v", s)
	}
	if container.LivenessProbe == nil || container.ReadinessProbe == nil || container.StartupProbe == nil {
		t.Error("a probe is missing")
	}
	config := the[*corev1.ConfigMap](t, "scheduler/side-by-side.yaml")
	mounted, path := pod.Volumes[0].ConfigMap.Name, container.VolumeMounts[0].MountPath+"/config.yaml"
	if mounted != config.Name || config.Name != the[*corev1.ConfigMap](t, "scheduler/replace.yaml").Name || !slices.Contains(container.Args, "--config="+path) {
		t.Errorf("the pod mounts %s and reads %v, the configuration is in %s", mounted, container.Args, config.Name)
	}
}

// TestBindingsFitRoles finds bindings of a role or an account that no manifest creates.
func TestBindingsFitRoles(t *testing.T) {
	made := map[string]bool{
		"ClusterRole system:kube-scheduler": true, "ClusterRole system:volume-scheduler": true,
		"Role extension-apiserver-authentication-reader": true,
	}
	for _, m := range manifests(t) {
		kind, name := m.name(t)
		made[kind+" "+name] = true
		if account, ok := m.object.(*corev1.ServiceAccount); ok {
			made["account "+account.Namespace+"/"+name] = true
		}
	}
	for _, m := range manifests(t) {
		var role rbacv1.RoleRef
		var subjects []rbacv1.Subject
		switch object := m.object.(type) {
		case *rbacv1.ClusterRoleBinding:
			role, subjects = object.RoleRef, object.Subjects
		case *rbacv1.RoleBinding:
			role, subjects = object.RoleRef, object.Subjects
		default:
			continue
		}
		if !made[role.Kind+" "+role.Name] || len(subjects) != 1 || subjects[0].Kind != "ServiceAccount" || !made["account "+subjects[0].Namespace+"/"+subjects[0].Name] {
			t.Errorf("%s binds %s %s to %v", m.file, role.Kind, role.Name, subjects)
			continue
		}
		want := "berth-" + path.Dir(filepath.ToSlash(m.file))
		if m.file == viewerFile {
			want = "berth-viewer"
		}
		if account := subjects[0].Name; account != want {
			t.Errorf("%s binds %s %s to %s, want %s", m.file, role.Kind, role.Name, account, want)
		}
	}
	deployment, agents := the[*appsv1.Deployment](t, "scheduler/deployment.yaml"), the[*appsv1.DaemonSet](t, "agent/daemonset.yaml")
	for account, used := range map[string]string{
		"berth-system/berth-scheduler": deployment.Namespace + "/" + deployment.Spec.Template.Spec.ServiceAccountName,
		"berth-system/berth-agent":     agents.Namespace + "/" + agents.Spec.Template.Spec.ServiceAccountName,
	} {
		if account != used || !made["account "+account] {
			t.Errorf("a program runs as %s, want %s", used, account)
		}
	}
}

// TestProgramsWriteLittle lists every verb that changes something, so that a new right is noticed.
func TestProgramsWriteLittle(t *testing.T) {
	reading := []string{"get", "list", "watch"}
	var writing []string
	check := func(file string, rules []rbacv1.PolicyRule) {
		for _, rule := range rules {
			for _, verb := range rule.Verbs {
				if !slices.Contains(reading, verb) {
					writing = append(writing, strings.Join([]string{file, verb, strings.Join(rule.Resources, ","), strings.Join(rule.ResourceNames, ",")}, " "))
				}
			}
		}
	}
	for _, m := range manifests(t) {
		switch object := m.object.(type) {
		case *rbacv1.ClusterRole:
			check(m.file, object.Rules)
		case *rbacv1.Role:
			check(m.file, object.Rules)
		}
	}
	want := []string{
		"agent/rbac.yaml patch pods/status ",
		"agent/rbac.yaml create nodetopologies ", "agent/rbac.yaml update nodetopologies ",
		"agent/rbac.yaml update nodetopologies/status ",
		"agent/rbac.yaml create events ", "agent/rbac.yaml patch events ",
		"agent/rbac.yaml create tokenreviews ", "agent/rbac.yaml create subjectaccessreviews ",
		"agent/rbac.yaml create leases ", "agent/rbac.yaml update leases ",
		"repack.yaml patch pods/status ", "repack.yaml repack nodetopologies ",
		"scheduler/rbac.yaml update leases berth-scheduler",
		"uninstall/rbac.yaml patch configmaps berth-config",
	}
	if !slices.Equal(writing, want) {
		t.Errorf("writing verbs %q, want %q", writing, want)
	}
}

// TestPoliciesKnowTheValues compares the values in the policies with the values that the program knows.
func TestPoliciesKnowTheValues(t *testing.T) {
	var classes []string
	for _, class := range v1alpha1.QoSClasses() {
		classes = append(classes, "'"+string(class)+"'")
	}
	quoted := []string{
		"['', " + strings.Join(classes, ", ") + "]",
		"['" + v1alpha1.CPUSetSchedulerOn + "', '" + v1alpha1.CPUSetSchedulerOff + "']",
		"== '" + v1alpha1.CPUPolicyStaticBurst + "'",
		"'" + v1alpha1.AnnotationCPUSetScheduler + "'", "'" + v1alpha1.AnnotationCPUPolicy + "'", "'" + v1alpha1.LabelQoSClass + "'",
	}
	bound := map[string]bool{}
	var policies []*admissionv1.ValidatingAdmissionPolicy
	for _, m := range manifests(t) {
		switch object := m.object.(type) {
		case *admissionv1.ValidatingAdmissionPolicy:
			policies = append(policies, object)
		case *admissionv1.ValidatingAdmissionPolicyBinding:
			bound[object.Spec.PolicyName] = slices.Equal(object.Spec.ValidationActions, []admissionv1.ValidationAction{admissionv1.Deny})
		}
	}
	if len(policies) != 5 {
		t.Fatalf("%d validating policies", len(policies))
	}
	for _, policy := range policies {
		if !bound[policy.Name] {
			t.Errorf("%s is not bound, or does not deny", policy.Name)
		}
		var text strings.Builder
		for _, v := range policy.Spec.Variables {
			text.WriteString(v.Expression)
		}
		for _, v := range policy.Spec.Validations {
			text.WriteString(v.Expression)
		}
		want := quoted
		switch policy.Name {
		case "agent.berth.dev":
			want = []string{"'" + v1alpha1.AnnotationPlacement + "'", "'" + v1alpha1.NodeTopologyResource + "'"}
		case "repack.berth.dev":
			want = []string{"['" + v1alpha1.AnnotationMove + "']"}
		case "placement.berth.dev":
			want = []string{"'" + v1alpha1.AnnotationPlacement + "'", "'system:serviceaccount:berth-system:berth-scheduler'"}
		}
		for _, part := range want {
			if !strings.Contains(text.String(), part) {
				t.Errorf("%s lacks %s", policy.Name, part)
			}
		}
	}
}

// TestRaiseRequestsIsApart checks that only one separate file changes pods, so that nobody applies such a policy by
// accident.
func TestRaiseRequestsIsApart(t *testing.T) {
	for _, m := range manifests(t) {
		if _, changes := m.object.(*admissionv1.MutatingAdmissionPolicy); changes && m.file != "policy/raise-requests.yaml" {
			t.Errorf("%s changes pods", m.file)
		}
	}
	the[*admissionv1.MutatingAdmissionPolicyBinding](t, "policy/raise-requests.yaml")
}
