package cluster

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/test/cluster/controlplane"
)

// The shipped configurations.
const (
	sideBySide = "side-by-side.yaml"
	replace    = "replace.yaml"
)

// The shipped service account.
const (
	schedulerNamespace = "berth-system"
	schedulerAccount   = "berth-scheduler"
)

// schedulerUser is the account's name in audit logs.
const schedulerUser = "system:serviceaccount:" + schedulerNamespace + ":" + schedulerAccount

// scheduler is a berth-scheduler that a test can kill and restart.
type scheduler struct {
	*controlplane.Child
	stand *stand
	name  string
	argv  []string
}

// setting changes the shipped configuration where a test must: client, rates and replicas.
type setting func(config map[string]any)

// withLeaders enables leader election as shipped, with shorter times.
func withLeaders(config map[string]any) {
	election, _ := config["leaderElection"].(map[string]any)
	maps.Copy(election, map[string]any{"leaderElect": true, "leaseDuration": "4s", "renewDeadline": "3s", "retryPeriod": "1s"})
}

// withArgs sets arguments of the plugin in each profile.
func withArgs(args map[string]any) setting {
	return func(config map[string]any) {
		profiles, _ := config["profiles"].([]any)
		for _, p := range profiles {
			profile, _ := p.(map[string]any)
			if !hasArgs(profile, args) {
				entries, _ := profile["pluginConfig"].([]any)
				profile["pluginConfig"] = append(entries, map[string]any{"name": "Berth", "args": args})
			}
		}
	}
}

// hasArgs adds args to the profile's existing arguments, and reports whether there were any.
func hasArgs(profile, args map[string]any) bool {
	entries, _ := profile["pluginConfig"].([]any)
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		if entry["name"] != "Berth" {
			continue
		}
		old, _ := entry["args"].(map[string]any)
		if old == nil {
			old = map[string]any{}
		}
		maps.Copy(old, args)
		entry["args"] = old
		return true
	}
	return false
}

// startScheduler starts a scheduler with a shipped configuration as the shipped service account. It ends with the test.
// The test fails if the scheduler lacked a right or crashed.
func (s *stand) startScheduler(t *testing.T, name, shipped string, settings ...setting) *scheduler {
	t.Helper()
	kubeconfig := filepath.Join(s.Dir(), name+".kubeconfig")
	if err := controlplane.WriteKubeconfig(s.schedulerConfig(t), kubeconfig); err != nil {
		t.Fatal(err)
	}
	config := shippedConfig(t, shipped)
	config["clientConnection"] = map[string]any{"kubeconfig": kubeconfig, "qps": 5000, "burst": 5000}
	if election, ok := config["leaderElection"].(map[string]any); ok {
		election["leaderElect"] = false
	}
	for _, set := range settings {
		set(config)
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(s.Dir(), name+".yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	argv := []string{s.programs.Scheduler, "--config=" + file, "--v=2", "--secure-port=0"}
	sched := &scheduler{stand: s, name: name, argv: append(argv, s.flags...)}
	sched.start(t)
	t.Cleanup(func() { sched.end(t) })
	return sched
}

// schedulerConfig returns a client configuration with the rights of the shipped service account.
func (s *stand) schedulerConfig(t *testing.T) *rest.Config {
	t.Helper()
	config, err := s.AsServiceAccount(t.Context(), schedulerNamespace, schedulerAccount)
	if err != nil {
		t.Fatal(err)
	}
	if s.server != "" {
		config.Host, config.TLSClientConfig = s.server, rest.TLSClientConfig{CAData: s.serverCA}
	}
	return config
}

// shippedConfig reads a configuration of deploy/scheduler from its ConfigMap.
func shippedConfig(t *testing.T, name string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "deploy", "scheduler", name))
	if err != nil {
		t.Fatal(err)
	}
	var object v1.ConfigMap
	if err := yaml.Unmarshal(text, &object); err != nil {
		t.Fatal(err)
	}
	config := map[string]any{}
	if err := yaml.Unmarshal([]byte(object.Data["config.yaml"]), &config); err != nil {
		t.Fatal(err)
	}
	if config["kind"] != "KubeSchedulerConfiguration" {
		t.Fatalf("%s holds a %v", name, config["kind"])
	}
	return config
}

func (s *scheduler) start(t *testing.T) {
	t.Helper()
	child, err := controlplane.StartChild(s.stand.Dir(), s.name, s.argv...)
	if err != nil {
		t.Fatal(err)
	}
	s.Child = child
}

// crash kills the scheduler with SIGKILL, like a power cut.
func (s *scheduler) crash(t *testing.T) {
	t.Helper()
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
}

// end kills the scheduler at the end of a test and checks its log.
func (s *scheduler) end(t *testing.T) {
	if err := s.Kill(); err != nil {
		t.Error(err)
	}
	bad := []string{"panic", "runtime error", "DATA RACE", "Two pods hold the same CPUs"}
	if !s.stand.away {
		bad = append(bad, "forbidden")
	}
	for _, line := range s.linesWith(t, bad...) {
		t.Errorf("%s says: %s", s.name, line)
	}
	if t.Failed() {
		t.Logf("log of %s: %s", s.name, s.Log())
		s.showTail(t)
	}
}

// linesWith returns the first lines of the log that contain one of the texts.
func (s *scheduler) linesWith(t *testing.T, texts ...string) []string {
	t.Helper()
	file, err := os.Open(s.Log())
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var found []string
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() && len(found) < 5 {
		for _, text := range texts {
			if strings.Contains(lines.Text(), text) {
				found = append(found, lines.Text())
				break
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
	return found
}

// showTail logs the end of the log, because the temporary directory is deleted.
func (s *scheduler) showTail(t *testing.T) {
	text, err := os.ReadFile(s.Log())
	if err != nil {
		t.Log(err)
		return
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	t.Logf("%s", strings.Join(lines[max(0, len(lines)-15):], "\n"))
}

// thaw continues a frozen scheduler.
func (s *scheduler) thaw() error { return s.Signal(syscall.SIGCONT) }

// placed waits until a pod is bound and returns its node.
func (s *stand) placed(t *testing.T, namespace, name string) string {
	t.Helper()
	var node string
	within(t, func() string {
		pod, err := s.client.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if node = pod.Spec.NodeName; node == "" {
			return fmt.Sprintf("pod %s is not bound: %+v", name, pod.Status.Conditions)
		}
		return ""
	})
	return node
}
