package cluster

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/internal/intent/strategy"
)

// TestPodOf checks which fields of a pod are kept.
func TestPodOf(t *testing.T) {
	const owner = `ownerReferences: [{apiVersion: v1, kind: Node, name: node-1, uid: x, controller: true}]`
	for _, test := range []struct {
		name, metadata string
		from           Source
		uid, object    string
		static         bool
	}{
		{"ordinary", `annotations: {kubernetes.io/config.source: api}`, APIServer, "u", "u", false},
		{"ordinary, of the kubelet", `annotations: {kubernetes.io/config.source: api}`, Kubelet, "u", "u", false},
		{"static", `annotations: {kubernetes.io/config.source: file}`, Kubelet, "u", "", true},
		{"static by its own word", `annotations: {kubernetes.io/config.source: file}`, APIServer, "u", "u", false},
		{"mirror", `annotations: {kubernetes.io/config.mirror: s}, ` + owner, APIServer, "s", "u", true},
		{"mirror without an owner", `annotations: {kubernetes.io/config.mirror: s}`, APIServer, "u", "u", false},
		{"mirror of another node", `annotations: {kubernetes.io/config.mirror: s}, ownerReferences: [{kind: Node, name: m, controller: true}]`, APIServer, "u", "u", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var p v1.Pod
			if err := yaml.UnmarshalStrict([]byte(`metadata: {namespace: shop, name: web, uid: u, `+test.metadata+`}`), &p); err != nil {
				t.Fatal(err)
			}
			got := podOf(&p, test.from, "node-1")
			if got.UID != test.uid || got.Object != (Object{"shop", "web", test.object}) || got.Static != test.static || got.Key != "shop/web" {
				t.Errorf("pod %+v", got)
			}
		})
	}
}

// TestPodKeeps checks which annotations are kept, and which changes of a pod have no effect.
func TestPodKeeps(t *testing.T) {
	bound := metav1.Unix(1000, 0)
	class := "kata"
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u", ResourceVersion: "1", Annotations: map[string]string{
			"cpuset-scheduler": "true", "koordinator.sh/cpuBurst": "{}", "scheduling.koordinator.sh/resource-spec": "{}",
			"alibabacloud.com/cpuBurst": "{}", "berth.dev/placement": "{}",
			"example.com/big": "x", "notkoordinator.sh/x": "x", "kubectl.kubernetes.io/last-applied-configuration": "x",
		}},
		Spec: v1.PodSpec{RuntimeClassName: &class},
		Status: v1.PodStatus{
			Phase: v1.PodFailed, QOSClass: v1.PodQOSBestEffort,
			Conditions: []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: bound}},
		},
	}
	got := podOf(p, APIServer, "n")
	if len(got.Annotations) != 5 || !got.Bound.Equal(bound.Time) || !got.Ended || !got.BestEffort || got.RuntimeClass != "kata" {
		t.Errorf("pod %+v", got)
	}
	next := p.DeepCopy()
	next.ResourceVersion, next.Annotations["example.com/big"], next.Status.PodIP = "2", "y", "10.0.0.1"
	if !got.same(podOf(next, APIServer, "n")) {
		t.Error("a change of a field that is not read is one")
	}
	next.Annotations["koordinator.sh/cpuBurst"] = "x"
	if got.same(podOf(next, APIServer, "n")) {
		t.Error("a change of a policy is none")
	}
}

// TestWithoutAPIServer starts a client when only the kubelet answers, and ends it. The ConfigMaps are the remembered
// ones.
func TestWithoutAPIServer(t *testing.T) {
	maps := strategy.Maps{strategy.BerthConfig: {strategy.KeyState: strategy.StateRestore}}
	c, err := New(Options{
		Config: &rest.Config{Host: "https://127.0.0.1:1"}, Node: "n", Identity: "i",
		Kubelet: kubeletWith{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u"}}},
		Memory:  Memory{ConfigMaps: maps},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	for c.Snapshot().PodsFrom != Kubelet {
		<-c.Changed()
	}
	if pods := c.Snapshot().Pods; len(pods) != 1 || pods[0].UID != "u" {
		t.Errorf("pods %+v", pods)
	}
	if s := c.Snapshot(); s.ConfigMapsRead || !cmp.Equal(s.ConfigMaps, maps) {
		t.Errorf("ConfigMaps %v, read: %t", s.ConfigMaps, s.ConfigMapsRead)
	}
	c.Event(Event{Reason: "r"})
	time.Sleep(300 * time.Millisecond) // So that some retries are in progress.
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, options := range []Options{{}, {Config: &rest.Config{}, Node: "n"}, {Config: &rest.Config{}, Identity: "i"}, {Node: "n", Identity: "i"}} {
		if _, err := New(options); !errors.Is(err, ErrOptions) {
			t.Errorf("New(%+v) = %v", options, err)
		}
	}
}

func TestConnect(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, err := Connect("", "berth"); !errors.Is(err, ErrNoCluster) {
		t.Errorf("outside a cluster: %v", err)
	}
	if _, err := Connect(filepath.Join(t.TempDir(), "none"), "berth"); err == nil {
		t.Error("a kubeconfig that is not there")
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://a.example:6443'}}]\ncontexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := Connect(file, "berth/1")
	if err != nil || config.Host != "https://a.example:6443" || config.UserAgent != "berth/1" {
		t.Errorf("config %+v: %v", config, err)
	}
}

func TestNodeOfToken(t *testing.T) {
	encode := func(claims string) string { return "h." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".s" }
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(encode(`{"kubernetes.io":{"node":{"name":"from-file"}}}`)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		config rest.Config
		want   string
		fails  bool
	}{
		{rest.Config{}, "", false},
		{rest.Config{BearerToken: "opaque"}, "", false},
		{rest.Config{BearerToken: encode(`{"kubernetes.io":{"namespace":"x"}}`)}, "", false},
		{rest.Config{BearerToken: encode(`{"kubernetes.io":{"node":{"name":"n"}}}`)}, "n", false},
		{rest.Config{BearerTokenFile: file}, "from-file", false},
		{rest.Config{BearerToken: encode(`{`)}, "", true},
		{rest.Config{BearerTokenFile: file + ".none"}, "", true},
	} {
		got, err := NodeOfToken(&test.config)
		if got != test.want || (err != nil) != test.fails {
			t.Errorf("NodeOfToken(%+v) = %q, %v", test.config, got, err)
		}
		if given, err := NodeName("given", &test.config); given != "given" || err != nil {
			t.Errorf("NodeName(given, %+v) = %q, %v", test.config, given, err)
		}
		if test.want == "" && !test.fails {
			host, err := os.Hostname()
			if err != nil {
				t.Fatal(err)
			}
			test.want = strings.ToLower(host)
		}
		if got, err := NodeName("", &test.config); got != test.want || (err != nil) != test.fails {
			t.Errorf("NodeName(%+v) = %q, %v", test.config, got, err)
		}
	}
}
