package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/test/cluster/local"
)

func parent(dir string) string { return filepath.Dir(dir) }

// nodeReady waits until the kubelet reports that the node is ready.
func (s *stage) nodeReady(t *testing.T) {
	t.Helper()
	s.eventually(t, "the node is ready", func() string {
		n, err := s.client.CoreV1().Nodes().Get(t.Context(), local.NodeName, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		for _, c := range n.Status.Conditions {
			if c.Type == v1.NodeReady && c.Status == v1.ConditionTrue {
				return ""
			}
		}
		return fmt.Sprintf("%+v", n.Status.Conditions)
	})
}

// agentReady waits until the agent has all its connections.
func (s *stage) agentReady(t *testing.T) {
	t.Helper()
	s.eventually(t, "the agent is connected", func() string {
		all := metrics(t)
		if all == nil {
			return "there is none"
		}
		if all["berth_nri_connected"] != 1 {
			return "it is not connected to the runtime"
		}
		return ""
	})
}

// agent returns the agent's pod.
func (s *stage) agent(t *testing.T) *v1.Pod {
	t.Helper()
	var found *v1.Pod
	s.eventually(t, "the agent's pod", func() string {
		list, err := s.client.CoreV1().Pods(berth).List(t.Context(), metav1.ListOptions{
			LabelSelector: "app.kubernetes.io/name=berth-agent", FieldSelector: "spec.nodeName=" + local.NodeName,
		})
		if err != nil {
			return err.Error()
		}
		for _, p := range list.Items {
			if p.DeletionTimestamp == nil && p.Status.Phase == v1.PodRunning && id(&p, agents) != "" {
				found = &p
				return ""
			}
		}
		return "none runs"
	})
	return found
}

// agentPID returns the process id of the agent.
func (s *stage) agentPID(t *testing.T) int {
	t.Helper()
	var pid int
	s.eventually(t, "the agent's process", func() string {
		is := id(s.agent(t), agents) // The API server may still know an earlier container.
		for _, g := range groups() {
			if pids := g.pids(); g.id == is && len(pids) == 1 {
				var err error
				pid, err = strconv.Atoi(pids[0])
				return text(err)
			}
		}
		return "none in container " + is
	})
	return pid
}

// killAgent kills the agent with SIGKILL. The kubelet restarts it.
func (s *stage) killAgent(t *testing.T) {
	t.Helper()
	s.witness.without()
	pid := s.agentPID(t)
	must(t, unix.Kill(pid, unix.SIGKILL))
	s.eventually(t, "the agent ends", func() string {
		if err := unix.Kill(pid, 0); errors.Is(err, unix.ESRCH) {
			return ""
		}
		return "it runs"
	})
}

// kill kills servers with SIGKILL and waits until the supervisor has restarted them.
func (s *stage) kill(t *testing.T, names ...string) {
	t.Helper()
	connections := metrics(t)["berth_nri_connections_total"]
	ctx := context.WithoutCancel(t.Context())
	for _, name := range names {
		must(t, s.c.Stop(ctx, name))
	}
	for _, name := range names {
		must(t, s.c.Start(ctx, name))
	}
	if !slices.Contains(names, "containerd") {
		return
	}
	s.eventually(t, "the agent is connected to the new runtime", func() string {
		all := metrics(t)
		if all["berth_nri_connected"] == 1 && all["berth_nri_connections_total"] > connections {
			return ""
		}
		return fmt.Sprintf("connected %v, connections %v", all["berth_nri_connected"], all["berth_nri_connections_total"])
	})
}
