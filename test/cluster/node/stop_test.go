package node

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-project/berth/test/cluster/local"
)

// rollingRestart replaces the agent as an upgrade does. No pod's CPUs may change in the meantime.
func (s *stage) rollingRestart(t *testing.T) {
	p := s.start(t, "held", pinned)
	neighbour := s.start(t, "neighbour")
	s.settled(t)
	var files []string
	for _, dir := range []string{s.groupOf(t, id(p, "app")).dir, s.groupOf(t, id(neighbour, "app")).dir} {
		files = append(files, cpusets()+dir+"/cpuset.cpus")
	}
	s.replaced(t, files, func() { s.kubectl(t, "-n", berth, "rollout", "restart", "daemonset/"+agents) })
	s.unchanged(t, p)
}

// replaced makes replace replace the agent. No file may change until the new agent has finished its first
// reconciliation.
func (s *stage) replaced(t *testing.T, files []string, replace func()) {
	t.Helper()
	before, old := contents(files), s.agentPID(t)
	s.witness.without()
	replace()
	s.eventually(t, "another agent", func() string {
		if now := contents(files); now != before {
			t.Fatalf("the CPUs were %s and are %s", before, now)
		}
		if all := metrics(t); all["berth_nri_connected"] != 1 {
			return "none"
		}
		if now := s.agentPID(t); now == old {
			return "the same"
		}
		return ""
	})
	for range 20 {
		time.Sleep(50 * time.Millisecond)
		if now := contents(files); now != before {
			t.Fatalf("the CPUs were %s and are %s", before, now)
		}
	}
	s.settled(t)
}

// contents returns the contents of files, one line each.
func contents(files []string) string {
	var all []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		all = append(all, strings.TrimSpace(string(content))+text(err))
	}
	return strings.Join(all, "\n")
}

// terminated ends the agent with SIGTERM while no kubelet restarts it. The agent must restore everything above the
// limits and leave pinning as it is.
func (s *stage) terminated(t *testing.T) {
	p := s.start(t, "held", pinned)
	still := s.start(t, "still", limited("300m"), annotated(burstKey, burstPolicy(20)))
	busy := s.start(t, "busy", limited("400m"), spinning, annotated(burstKey, `{"policy":"auto","cfsQuotaBurstPercent":300}`))
	dir, busyDir := s.groupOf(t, id(still, "app")).dir, s.groupOf(t, id(busy, "app")).dir
	s.awaitBurst(t, dir, 20)
	s.settled(t)
	s.witness.without()
	must(t, s.c.Stop(t.Context(), "kubelet"))
	pid := s.signal(t, unix.SIGTERM)
	s.eventually(t, "the agent ends", func() string {
		if unix.Kill(pid, 0) == nil {
			return "it runs"
		}
		return ""
	})
	if b, q, pod := burst(dir), quota(busyDir), quota(parent(busyDir)); b != "0" || q != "40000" || pod != "40000" {
		t.Errorf("without an agent: burst %s, quota %s, of its pod %s", b, q, pod)
	}
	s.settled(t)
	must(t, s.c.Start(t.Context(), "kubelet"))
	s.nodeReady(t)
	s.agentBack(t, pid)
	s.awaitBurst(t, dir, 20)
	s.settled(t)
	s.unchanged(t, p)
}

// rollback removes the agent from the node and restores all that it changed.
func (s *stage) rollback(t *testing.T) {
	p := s.start(t, "held", pinned)
	still := s.start(t, "still", limited("300m"), annotated(burstKey, burstPolicy(20)))
	dir := s.groupOf(t, id(p, "app")).dir
	s.awaitBurst(t, s.groupOf(t, id(still, "app")).dir, 20)
	s.settled(t)
	s.witness.without()
	s.nodesWithAgent(t, `{"berth.test/none":"true"}`)
	s.eventually(t, "no agent", func() string {
		if metrics(t) != nil {
			return "there is one"
		}
		return ""
	})
	config := filepath.Join(t.TempDir(), "agent.yaml")
	must(t, os.WriteFile(config, []byte("stateDir: "+local.NodePath("/var/lib/berth")+"\nworkloadDir: "+t.TempDir()+"\n"), 0o600))
	out, err := exec.CommandContext(t.Context(), s.programs.Berth, "rollback", "--config", config).CombinedOutput()
	t.Logf("%s", out)
	must(t, err)
	for _, g := range groups() {
		if file, all := read(cpusets(), g.dir, "cpuset.cpus"), read(cpusets(), parent(g.dir), "cpuset.cpus"); file != "" && file != all {
			t.Errorf("%s: cpuset.cpus is %s after the rollback, and %s above", g.dir, file, all)
		}
		// On cgroup v1 a container that ends loses its groups one after the other.
		if b := burst(g.dir); b != "" && b != "0" {
			t.Errorf("%s: the burst is %s after the rollback", g.dir, b)
		}
	}
	if q, pod := quota(dir), quota(parent(dir)); q != "100000" || pod != "100000" {
		t.Errorf("after the rollback the quota is %s, of the pod %s", q, pod)
	}
	s.nodesWithAgent(t, `null`)
	s.agentReady(t)
	s.settled(t)
	s.unchanged(t, p)
}

// nodesWithAgent sets which nodes run an agent, in addition to the condition that they run Linux.
func (s *stage) nodesWithAgent(t *testing.T, labels string) {
	t.Helper()
	body := fmt.Sprintf(`{"spec":{"template":{"spec":{"nodeSelector":%s}}}}`, labels)
	if labels == "null" {
		body = `{"spec":{"template":{"spec":{"nodeSelector":{"berth.test/none":null}}}}}`
	}
	_, err := s.client.AppsV1().DaemonSets(berth).Patch(t.Context(), agents, types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{})
	must(t, err)
}
