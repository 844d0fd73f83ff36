package main

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// reload has systemd read its units again five times, about as often as a minute has room for: it then
// writes the CPUs that it has on record over those of each container. All stay where they are, and
// Berth gives no list up: one whose CPU goes offline after that still moves. In the end the agent goes,
// a rollback puts all back, and systemd does not undo that. The pods are those that offline leaves.
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

// moves takes a CPU from a pod, which gets another one, and gives it back to the machine after what is
// to happen meanwhile. It returns that CPU.
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

// everywhere says which container does not have all CPUs: none may be left.
func (s *second) everywhere(t *testing.T, when string) {
	t.Helper()
	all := s.online(t)
	for _, r := range s.residents(t) {
		if r.effective != all || r.mask != all {
			t.Errorf("%s: %s: file %s, effective %s, mask %s, want %s", when, r.pod, r.file, r.effective, r.mask, all)
		}
	}
}

// agents ends the agents of the cluster, or has them back.
func (s *second) agents(t *testing.T, patch string) {
	t.Helper()
	if _, err := s.client.AppsV1().DaemonSets(agentSpace).Patch(t.Context(), agentSet, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}
