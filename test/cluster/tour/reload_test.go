package main

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// reload makes systemd reload its units five times, about as many as fit into a minute. Each time systemd writes its
// recorded CPUs to every container, and every container must end up on its own CPUs. Berth must still be able to move a
// pod when one of its CPUs goes offline later. In the end a rollback restores everything, and systemd must not undo
// that. The pods are those that offline leaves.
func (s *second) reload(t *testing.T) {
	before, begun := s.given(t, "held"), time.Now()
	for range 5 {
		s.sh(t, "systemctl daemon-reload; sleep 3")
		s.settled(t)
	}
	t.Logf("five daemon-reloads in %s", time.Since(begun).Round(time.Second))
	if now := s.given(t, "held"); now != before {
		t.Errorf("held had %s and has %s", before, now)
	}
	s.moves(t, "held", func() {})

	s.agents(t, patchPaused)
	s.eventually(t, "the agent ended", func() string { return s.sh(t, "cat /proc/[0-9]*/comm 2>/dev/null | grep -x berth || true") })
	s.settled(t)
	t.Log(s.sh(t, "berth rollback"))
	s.everywhere(t, "after the rollback")
	s.sh(t, "systemctl daemon-reload; sleep 3")
	s.everywhere(t, "after a daemon-reload")
	s.agents(t, patchBack)
	s.settled(t)
}

// moves takes a CPU of a pod offline, so that the pod gets another CPU. It calls meanwhile, brings the CPU online
// again, and returns it.
func (s *second) moves(t *testing.T, name string, meanwhile func()) (lost int) {
	t.Helper()
	before := s.given(t, name)
	lost, _ = before.Max()
	file := fmt.Sprintf("/sys/devices/system/cpu/cpu%d/online", lost)
	s.sh(t, "echo 0 > "+file)
	s.eventually(t, name+" has other CPUs", func() string {
		if now := s.given(t, name); now.Contains(lost) || now.Size() != before.Size() {
			return "it has " + now.String()
		}
		return ""
	})
	s.settled(t)
	meanwhile()
	s.sh(t, "echo 1 > "+file)
	return lost
}

// everywhere reports every container that does not have all CPUs.
func (s *second) everywhere(t *testing.T, when string) {
	t.Helper()
	all := s.online(t)
	for _, r := range s.residents(t) {
		if r.effective != all || r.mask != all {
			t.Errorf("%s: %s: file %s, effective %s, mask %s, want %s", when, r.pod, r.file, r.effective, r.mask, all)
		}
	}
}

// agents stops or restarts the agents of the cluster.
func (s *second) agents(t *testing.T, patch string) {
	t.Helper()
	if _, err := s.client.AppsV1().DaemonSets(agentSpace).Patch(t.Context(), agentSet, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}
