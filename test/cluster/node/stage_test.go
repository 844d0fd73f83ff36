package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/test/cluster"
	"github.com/berth-project/berth/test/cluster/local"
	"github.com/berth-project/berth/test/patience"
)

// Names in the cluster.
const (
	space  = "berth-e2e"    // The namespace of all pods of these tests.
	berth  = "berth-system" // The agent's namespace.
	agents = "berth-agent"  // The agent's DaemonSet and account.
)

// stage is the cluster that all tests share.
type stage struct {
	c        *local.Cluster
	client   kubernetes.Interface
	programs cluster.Programs
	witness  *witness
	figures  map[string]any
	kubelet  []byte // The kubelet's configuration at the start of these tests.
}

// TestNode starts the cluster and runs all tests in it, one after the other.
func TestNode(t *testing.T) {
	s := newStage(t)
	for _, c := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"FirstInstruction", s.firstInstruction},
		{"WithoutNRI", s.withoutNRI},
		{"Change", s.change},
		{"Reported", s.reported},
		{"HostProfile", s.hostProfile},
		{"BadAnnotations", s.badAnnotations},
		{"BadConfigMaps", s.badMaps},
		{"MemoryLocality", s.memoryLocality},
		{"ForgedPlacement", s.forged},
		{"OtherScheduler", s.otherScheduler},
		{"StaticPod", s.staticPod},
		{"Kinds", s.kinds},
		{"StaticBurst", s.staticBurst},
		{"Isolation", s.isolation},
		{"PodLevel", s.podLevel},
		{"ResizePinned", s.resizePinned},
		{"ResizeBursting", s.resizeBursting},
		{"CrashLoop", s.crashLoop},
		{"ForceDeleted", s.forceDeleted},
		{"VirtualMachine", s.virtualMachine},
		{"Koordlet", s.koordlet},
		{"OtherPlugin", s.otherPlugin},
		{"TwoAgents", s.twoAgents},
		{"AgentKilled", s.agentKilled},
		{"BetweenAnswerAndStart", s.betweenAnswerAndStart},
		{"ServerKilled", s.serverKilled},
		{"RollingRestart", s.rollingRestart},
		{"Terminated", s.terminated},
		{"APIServerAway", s.apiAway},
		{"Churn", s.churn},
		{"FiftyPods", s.fifty},
		{"ShippedImages", s.shippedImages},
		{"KubeletStatic", s.kubeletStatic},
		{"KubeletMemory", s.kubeletMemory},
		{"Prometheus", s.prometheus},
		{"Viewed", s.viewed},
		{"Rollback", s.rollback},
		{"Chart", s.chart},
		{"ChartDefaults", s.chartDefaults},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Log(s.agentSays(t))
				}
			}()
			s.clean(t)
			c.run(t)
			s.clean(t)
		})
	}
	s.writeFigures(t)
}

// newStage starts the cluster, or skips the test if that is impossible.
func newStage(t *testing.T) *stage {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	programs, err := cluster.Find()
	if err == nil && os.Getuid() != 0 {
		err = errors.New("needs root")
	}
	if err != nil && os.Getenv("BERTH_CLUSTER") == "require" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip(err)
	}
	_, err = local.Running()
	borrowed := err == nil
	if borrowed && os.Getenv("BERTH_NODE_CLUSTER") != "running" {
		t.Skip("a cluster is up, and is not the test's to hurt; run: make cluster-down")
	}
	if !borrowed {
		must(t, local.Up(t.Context(), t.Output()))
		t.Cleanup(func() { must(t, local.Down(context.WithoutCancel(t.Context()), t.Output())) })
	}
	s := &stage{programs: programs, figures: map[string]any{}}
	s.c, err = local.Running()
	must(t, err)
	s.client, err = kubernetes.NewForConfig(s.c.Config())
	must(t, err)
	s.prepare(t, borrowed)
	s.witness = newWitness(t, s.client)
	return s
}

// prepare makes the namespace. It configures the kubelet to restart ended containers without a long delay, and adds a
// handler to containerd whose name belongs to a runtime that starts virtual machines.
func (s *stage) prepare(t *testing.T, borrowed bool) {
	t.Helper()
	before, err := os.ReadFile(configFile("kubelet.yaml"))
	must(t, err)
	s.kubelet = s.kubeletWith(t, before, map[string]any{"crashLoopBackOff": map[string]any{"maxContainerRestartPeriod": "1s"}})
	must(t, os.WriteFile(configFile("kubelet.yaml"), s.kubelet, 0o600))
	runtime, err := os.ReadFile(configFile("containerd.toml"))
	must(t, err)
	if borrowed {
		t.Cleanup(func() {
			must(t, os.WriteFile(configFile("kubelet.yaml"), before, 0o600))
			must(t, os.WriteFile(configFile("containerd.toml"), runtime, 0o600))
			s.kill(t, "kubelet", "containerd")
		})
	}
	kata := fmt.Sprintf("\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.kata]\n"+
		"  runtime_type = 'io.containerd.runc.v2'\n  runtime_path = %q\n"+
		"[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.kata.options]\n  BinaryName = %q\n",
		s.programs.Shim, s.programs.Runc)
	if !bytes.Contains(runtime, []byte("runtimes.kata]")) {
		must(t, os.WriteFile(configFile("containerd.toml"), append(slices.Clone(runtime), kata...), 0o600))
	}
	s.weigh(t)
	s.kill(t, "kubelet", "containerd")
	s.namespace(t)
	t.Cleanup(func() {
		// A borrowed cluster stays, so the test has to remove its objects.
		_ = s.client.CoreV1().Namespaces().Delete(context.WithoutCancel(t.Context()), space, metav1.DeleteOptions{})
	})
	s.eventually(t, "the account of the namespace", func() string {
		_, err := s.client.CoreV1().ServiceAccounts(space).Get(t.Context(), "default", metav1.GetOptions{})
		return text(err)
	})
	s.nodeReady(t)
	s.agentReady(t)
}

// namespace makes the namespace of the tests. An earlier namespace of that name may still be terminating.
func (s *stage) namespace(t *testing.T) {
	t.Helper()
	s.eventually(t, "the namespace", func() string {
		n, err := s.client.CoreV1().Namespaces().Create(t.Context(), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: space}}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			n, err = s.client.CoreV1().Namespaces().Get(t.Context(), space, metav1.GetOptions{})
		}
		if err != nil {
			return err.Error()
		}
		if n.DeletionTimestamp != nil {
			return "it is being deleted since " + n.DeletionTimestamp.String()
		}
		return ""
	})
}

// weigh gives the pods, including the agent, a larger share of the machine's CPU, so that other work on this machine
// does not disturb the tests. A cluster on its own node has no such competition.
func (s *stage) weigh(t *testing.T) {
	t.Helper()
	for name, weight := range map[string]string{"cpu.shares": "65536", "cpu.weight": "6400"} {
		file := cpus() + local.Group + "/" + name
		if exists(file) {
			must(t, os.WriteFile(file, []byte(weight), 0))
		}
	}
}

// kubeletWith returns a configuration of the kubelet with other fields.
func (s *stage) kubeletWith(t *testing.T, config []byte, fields map[string]any) []byte {
	t.Helper()
	all := map[string]any{}
	must(t, yaml.Unmarshal(config, &all))
	maps.Copy(all, fields)
	out, err := yaml.Marshal(all)
	must(t, err)
	return out
}

func configFile(name string) string { return filepath.Join(local.Dir, "config", name) }

// clean removes all pods of the tests and waits until the node is as it was before the first pod.
func (s *stage) clean(t *testing.T) {
	t.Helper()
	now := int64(0)
	ctx := context.WithoutCancel(t.Context())
	must(t, s.client.CoreV1().Pods(space).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{}))
	s.eventually(t, "no pods", func() string {
		list, err := s.client.CoreV1().Pods(space).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		names := make([]string, 0, len(list.Items))
		for _, p := range list.Items {
			names = append(names, p.Name)
		}
		return strings.Join(names, " ")
	})
	// They keep their CPUs until the runtime has ended them, too.
	s.eventually(t, "no groups", func() string { return strings.Join(s.witness.groupsOf(space), " ") })
	s.agentReady(t)
	s.settled(t)
	if found := s.witness.take(); len(found) > 0 {
		t.Errorf("broken law: exclusive CPUs were shared:\n%s\n%s", strings.Join(found, "\n"), s.agentSays(t))
	}
}

// agentSays returns the end of the agent's log.
func (s *stage) agentSays(t *testing.T) string {
	t.Helper()
	return s.kubectl(t, "logs", "-n", berth, "daemonset/"+agents, "--tail=200")
}

// settled waits until the witness finds no difference from its law.
func (s *stage) settled(t *testing.T) {
	t.Helper()
	s.eventually(t, "what annotations, answers, files and masks say", func() string {
		return strings.Join(s.witness.differences(), "\n")
	})
}

// eventually waits until look returns an empty string.
func (s *stage) eventually(t *testing.T, what string, look func() string) {
	t.Helper()
	if err := patience.Until(context.WithoutCancel(t.Context()), 20*time.Millisecond, look); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// kubectl runs kubectl as a user does.
func (s *stage) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), s.programs.Kubectl, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+local.Kubeconfig())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// figure records a measured figure for the report.
func (s *stage) figure(t *testing.T, name string, value any) {
	t.Helper()
	s.figures[name] = value
	t.Logf("FIGURE %s: %v", name, value)
}

func (s *stage) writeFigures(t *testing.T) {
	file := os.Getenv("BERTH_NODE_FIGURES")
	if file == "" {
		return
	}
	out, err := json.MarshalIndent(s.figures, "", "  ")
	must(t, err)
	must(t, os.WriteFile(file, append(out, '\n'), 0o644))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// text returns the text of an error, empty for none.
func text(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}
