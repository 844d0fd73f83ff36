package node

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batch "k8s.io/api/batch/v1"
	coordination "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/test/cluster"
	"github.com/berth-project/berth/test/cluster/local"
)

const (
	// release is the name of the chart's release, and releaseIn its namespace, as docs/chart.md has them. The chart then
	// also makes the agent's namespace, and each install after an uninstall takes it over.
	release, releaseIn = "berth", "kube-system"
	// deadNode has a NodeTopology and a Lease that an agent renewed long ago.
	deadNode = "dead"
	// topologies and definition are paths of the API.
	topologies = "/apis/berth.dev/v1alpha1/nodetopologies"
	definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodetopologies.berth.dev"
)

// Values of the chart in addition to those of valuesFile. The Job waits at least two minutes for the agent of a dead
// node: with patientJob it can wait for longer, and with hastyJob its time is over before that.
const (
	patientJob   = "uninstall: {timeoutSeconds: 3600}"
	hastyJob     = "uninstall: {timeoutSeconds: 30}"
	noDefinition = "crds: {delete: true}"
)

// chart installs, upgrades, rolls back and removes the chart by Helm's own client, beside pods that ran before any
// agent. At each removal every file of every pod must be as it was before the agent came. In the end the cluster has
// its manifests again, without Helm.
func (s *stage) chart(t *testing.T) {
	s.endAgent(t)
	held := s.start(t, "held", pinned)
	s.witness.unaskedPod(held)
	c := s.charted(t)
	c.held = held
	defer s.unchanged(t, held)
	defer c.withoutHelm(t)
	c.addDeadNode(t)
	c.overManifests(t)
	c.uninstalledTwice(t)
}

// endAgent removes the agent of the manifests.
func (s *stage) endAgent(t *testing.T) {
	t.Helper()
	s.pinnable(t, true, "") // The scheduler uses it while there is no agent.
	s.witness.without()
	s.kubectl(t, "-n", berth, "delete", "daemonset", agents)
	s.noAgent(t)
}

// charted returns the node without an agent, after observe.
func (s *stage) charted(t *testing.T) *charted {
	t.Helper()
	c := &charted{stage: s, helm: newHelm(t)}
	c.observe(t)
	return c
}

// observe starts pods beside those of the test, without an agent, and remembers the files of all.
func (c *charted) observe(t *testing.T) {
	t.Helper()
	c.still = c.start(t, "still", limited("300m"), annotated(burstKey, burstPolicy(20)))
	c.start(t, "neighbour")
	c.files = podFiles()
	c.before = contents(c.files)
}

// charted is a node with pods on which Helm installs the chart.
type charted struct {
	*stage

	helm        helm
	held, still *v1.Pod  // One is pinned, the other bursts.
	files       []string // All that Berth may write.
	before      string   // Their contents without an agent.
}

// overManifests takes over the objects of the manifests, and upgrades, rolls back and removes the release. No file of
// the pinned pod may change in an upgrade. The uninstall names the dead node, and keeps the namespaces and the
// definition of NodeTopology.
func (c *charted) overManifests(t *testing.T) {
	first, next := valuesFile(t, "{}", patientJob), valuesFile(t, "{burst: {maxPercent: 900}}", patientJob)
	c.helm.runs(t, "install", release, c.helm.chart, "--wait", "--take-ownership", "--force-conflicts", "-f", first)
	c.works(t)
	// The field manager of the manifests owns the agent's file as well, until Helm changes it.
	c.watched(t, "upgrade", release, c.helm.chart, "--wait", "--force-conflicts", "-f", next)
	c.watched(t, "rollback", release, "1", "--wait")
	c.unchanged(t, c.held)

	log := c.helm.runs(t, "uninstall", release)
	c.noAgent(t)
	c.asBefore(t, "after the uninstall")
	if !nodeSays(log, local.NodeName, "Restored", "every original value is back") ||
		!nodeSays(log, deadNode, "Absent", "its agent did not renew its Lease for ") {
		t.Errorf("helm uninstall says\n%s", log)
	}
	c.kubectl(t, "get", "namespace/"+berth, "namespace/koordinator-system", "customresourcedefinition/nodetopologies.berth.dev", "nodetopology/"+deadNode)
}

// uninstalledTwice installs the chart beside the namespaces and the definition that the last release left. The first
// uninstall fails and must remove nothing. The agents continue, and the second uninstall removes everything, including
// the definition.
func (c *charted) uninstalledTwice(t *testing.T) {
	hasty, patient := valuesFile(t, "{}", hastyJob+"\n"+noDefinition), valuesFile(t, "{}", patientJob+"\n"+noDefinition)
	begin := time.Now()
	c.helm.runs(t, "install", release, c.helm.chart, "--wait", "-f", hasty)
	c.agentReady(t)
	c.figure(t, "chart: from helm install until the agent is ready", time.Since(begin).Round(100*time.Millisecond))
	c.works(t)

	log, err := c.helm.run(t.Context(), "uninstall", release)
	switch {
	case err != nil && nodeSays(log, deadNode, "Waiting", "its agent has published no condition"):
		c.pinnable(t, false, "Restored: state: restore in ConfigMap berth-system/berth-config: every original value is back")
		c.asBefore(t, "after the failed uninstall")
	case err == nil || !c.overdue(t):
		t.Fatalf("helm uninstall, which cannot know whether the agent of a node lives: %v\n%s", err, log)
	}
	c.kubectl(t, "-n", berth, "get", "daemonset/"+agents, "configmap/berth-config", "job/berth-uninstall")

	if out, err := c.helm.run(t.Context(), "upgrade", release, c.helm.chart, "-f", patient); err == nil {
		t.Errorf("helm upgrades a release whose uninstall failed:\n%s", out)
	}
	c.kubectl(t, "-n", berth, "patch", "configmap", "berth-config", "--type=merge", "--patch", `{"data":{"state":null}}`)
	same := c.agentPID(t)
	c.helm.runs(t, "rollback", release, "1", "--wait")
	c.works(t)
	if now := c.agentPID(t); now != same {
		t.Errorf("helm rollback after a failed uninstall: the agent is process %d, and was %d", now, same)
	}
	c.unchanged(t, c.held)
	c.helm.runs(t, "upgrade", release, c.helm.chart, "--wait", "-f", patient)

	must(t, c.client.CoordinationV1().Leases(berth).Delete(t.Context(), deadNode, metav1.DeleteOptions{}))
	log = c.helm.runs(t, "uninstall", release)
	c.noAgent(t)
	c.asBefore(t, "after the second uninstall")
	if !nodeSays(log, local.NodeName, "Restored", "every original value is back") || !nodeSays(log, deadNode, "Absent", "its agent has no Lease") {
		t.Errorf("the second helm uninstall says\n%s", log)
	}
	c.eventually(t, "no definition of NodeTopology", func() string {
		if _, err := c.client.Discovery().RESTClient().Get().AbsPath(definition).DoRaw(t.Context()); !apierrors.IsNotFound(err) {
			return "it is there, " + text(err)
		}
		return ""
	})
}

// overdue reports whether Kubernetes ended the Job of the uninstall at its deadline, with its pod and the pod's log. The
// deadline counts by the clock, so that a starved machine may need it for the start of the pod.
func (c *charted) overdue(t *testing.T) bool {
	t.Helper()
	job, err := c.client.BatchV1().Jobs(berth).Get(t.Context(), "berth-uninstall", metav1.GetOptions{})
	must(t, err)
	return slices.ContainsFunc(job.Status.Conditions, func(is batch.JobCondition) bool {
		return is.Type == batch.JobFailed && is.Status == v1.ConditionTrue && is.Reason == batch.JobReasonDeadlineExceeded
	})
}

// works waits until the agent has done its work for the pods, and has published so.
func (c *charted) works(t *testing.T) {
	t.Helper()
	c.agentReady(t)
	c.pinnable(t, true, "")
	c.settled(t)
	c.awaitBurst(t, c.groupOf(t, id(c.still, "app")).dir, 20)
	if contents(c.files) == c.before {
		t.Fatal("the agent changed no file")
	}
}

// asBefore checks that all files have the contents that they had without an agent.
func (c *charted) asBefore(t *testing.T, when string) {
	t.Helper()
	before := strings.Split(c.before, "\n")
	for i, now := range strings.Split(contents(c.files), "\n") {
		if was := before[i]; now != was {
			t.Errorf("%s was %q, and is %q %s", c.files[i], was, now, when)
		}
	}
}

// watched runs a command of Helm that replaces the agent. No file of the pinned container may change before the new
// agent has finished its first reconciliation.
func (c *charted) watched(t *testing.T, args ...string) {
	t.Helper()
	dir := c.groupOf(t, id(c.held, "app")).dir
	files := append(filesOf(dir, "cpuset.cpus", "cpuset.mems", "cpu.cfs_quota_us", "cpu.max"), filesOf(parent(dir), "cpu.cfs_quota_us", "cpu.max")...)
	before, old := contents(files), c.agentPID(t)
	unchanged := func() {
		t.Helper()
		if now := contents(files); now != before {
			t.Fatalf("helm %s: of the pinned container, %s were\n%s\nand are\n%s", args[0], files, before, now)
		}
	}
	over := make(chan error, 1)
	var wait sync.WaitGroup
	t.Cleanup(wait.Wait)
	ctx := t.Context()
	wait.Go(func() {
		_, err := c.helm.run(ctx, args...)
		over <- err
	})
	c.eventually(t, "helm "+args[0], func() string {
		unchanged()
		select {
		case err := <-over:
			must(t, err)
			return ""
		default:
			return "it runs"
		}
	})
	c.agentBack(t, old)
	for range 20 {
		unchanged()
		time.Sleep(50 * time.Millisecond)
	}
	c.settled(t)
}

// addDeadNode adds a node without a kubelet, whose agent ended an hour ago without a word.
func (c *charted) addDeadNode(t *testing.T) {
	t.Helper()
	var live struct {
		APIVersion string          `json:"apiVersion"`
		Kind       string          `json:"kind"`
		Spec       json.RawMessage `json:"spec"`
	}
	content, err := c.client.Discovery().RESTClient().Get().AbsPath(topologies, local.NodeName).DoRaw(t.Context())
	must(t, err)
	must(t, json.Unmarshal(content, &live))
	dead, err := json.Marshal(map[string]any{
		"apiVersion": live.APIVersion, "kind": live.Kind, "metadata": map[string]any{"name": deadNode}, "spec": live.Spec,
	})
	must(t, err)
	t.Cleanup(func() { // A failed test leaves both.
		ctx := context.WithoutCancel(t.Context())
		_ = c.client.CoordinationV1().Leases(berth).Delete(ctx, deadNode, metav1.DeleteOptions{})
		_, _ = c.client.Discovery().RESTClient().Delete().AbsPath(topologies, deadNode).DoRaw(ctx)
	})
	_, err = c.client.Discovery().RESTClient().Post().AbsPath(topologies).SetHeader("Content-Type", "application/json").Body(dead).DoRaw(t.Context())
	must(t, err)
	holder, renewed := "an agent", metav1.NewMicroTime(time.Now().Add(-time.Hour))
	_, err = c.client.CoordinationV1().Leases(berth).Create(t.Context(), &coordination.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: deadNode}, Spec: coordination.LeaseSpec{HolderIdentity: &holder, RenewTime: &renewed},
	}, metav1.CreateOptions{})
	must(t, err)
}

// withoutHelm removes the release, if a failed test left it, and installs the manifests again.
func (c *charted) withoutHelm(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	if _, err := c.helm.run(ctx, "uninstall", release, "--no-hooks", "--ignore-not-found"); err != nil {
		t.Error(err)
	}
	must(t, c.c.Install(ctx))
	c.agentReady(t)
	c.settled(t)
}

// noAgent waits until no agent runs.
func (s *stage) noAgent(t *testing.T) {
	t.Helper()
	s.eventually(t, "no agent", func() string {
		list, err := s.client.CoreV1().Pods(berth).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=berth-agent"})
		if err != nil || len(list.Items) > 0 {
			return fmt.Sprintf("%d pods, %s", len(list.Items), text(err))
		}
		if metrics(t) != nil {
			return "there is one"
		}
		return ""
	})
}

// podFiles returns the files of all groups of pods that Berth may write.
func podFiles() []string {
	var dirs, files []string
	for _, pod := range podGroups() {
		dirs = append(dirs, strings.TrimPrefix(pod, cpusets()))
	}
	for _, g := range groups() {
		dirs = append(dirs, g.dir)
	}
	slices.Sort(dirs)
	for _, dir := range dirs {
		files = append(files, filesOf(dir, "cpuset.cpus", "cpuset.mems", "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us",
			"cpu.max", "cpu.max.burst", "cpu.idle", "cpu.bvt_warp_ns")...)
	}
	return files
}

// filesOf returns the files of a group that exist on this machine.
func filesOf(dir string, names ...string) (files []string) {
	for _, name := range names {
		root := cpus()
		if strings.HasPrefix(name, "cpuset.") {
			root = cpusets()
		}
		if file := root + dir + "/" + name; exists(file) {
			files = append(files, file)
		}
	}
	return files
}

// helm is Helm's own client, with the chart of this source tree. It has directories of its own.
type helm struct {
	program, chart string
	env            []string
}

func newHelm(t *testing.T) helm {
	t.Helper()
	root, err := cluster.Root()
	must(t, err)
	program, err := cluster.Path("helm")
	must(t, err)
	if !exists(program) {
		t.Fatal("no client of Helm; run: go -C test/cluster run ./programs helm")
	}
	home := t.TempDir()
	return helm{program, filepath.Join(root, "deploy", "chart"), append(os.Environ(), "KUBECONFIG="+local.Kubeconfig(),
		"HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home, "KUBECACHEDIR="+home)}
}

// run runs a command of Helm and returns its output, which is also part of the error. Helm limits its waits by the
// clock: the limit is long enough for a starved machine.
func (h helm) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, h.program, slices.Concat(args, []string{"--namespace=" + releaseIn, "--timeout=2h"})...)
	cmd.Env = h.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("helm %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), err
}

// runs is run for a command that must succeed.
func (h helm) runs(t *testing.T, args ...string) string {
	t.Helper()
	out, err := h.run(t.Context(), args...)
	must(t, err)
	return out
}

// valuesFile writes values of the chart, with fields of the agent's file and further values.
func valuesFile(t *testing.T, config, more string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	content := fmt.Sprintf("agent: {image: {tag: latest}, config: %s}\nscheduler: {mode: off}\n%s\n", config, more)
	must(t, os.WriteFile(file, []byte(content), 0o600))
	return file
}

// nodeSays reports whether a log of the Job has a node in this state, with a text. Helm prints the whole log as one
// quoted text.
func nodeSays(log, node, state, words string) bool {
	for line := range strings.Lines(strings.ReplaceAll(log, `\n`, "\n")) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] == node && fields[1] == state && strings.Contains(line, words) {
			return true
		}
	}
	return false
}
