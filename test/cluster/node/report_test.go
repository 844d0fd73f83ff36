package node

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/berth-project/berth/test/cluster/local"
)

// reported checks what Berth reports about a pod with exclusive CPUs.
func (s *stage) reported(t *testing.T) {
	s.start(t, "neighbour")
	s.start(t, "held", pinned)
	s.event(t, space, "held", "CPUPinned", "app")
	s.settled(t)
	has := s.placement(t, "held", "app").cpus.String()
	if said := s.kubectl(t, "-n", space, "describe", "pod", "held"); !hasAll(said, []string{"CPUPinned", "app " + has}) {
		t.Errorf("kubectl describe says:\n%s", said)
	}
	plugin := filepath.Join(t.TempDir(), "kubectl-berth")
	must(t, os.Symlink(s.programs.Berth, plugin))
	explain := func(pod string) string {
		cmd := exec.CommandContext(t.Context(), s.programs.Kubectl, "berth", "explain", "pod/"+pod, "-n", space)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+local.Kubeconfig(), "PATH="+filepath.Dir(plugin)+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("kubectl berth explain pod/%s: %v", pod, err)
		}
		return string(out)
	}
	for pod, words := range map[string][]string{"held": {"held", "app", has, local.NodeName}, "neighbour": {"neighbour"}} {
		if said := explain(pod); !hasAll(said, words) {
			t.Errorf("kubectl berth explain pod/%s says:\n%s", pod, said)
		} else {
			t.Log(said)
		}
	}
	if said := s.kubectl(t, "get", "nodetopologies"); !hasAll(said, []string{local.NodeName}) {
		t.Errorf("kubectl get nodetopologies says:\n%s", said)
	}
	s.eventually(t, "the NodeTopology has the exclusive CPU", func() string {
		if got := s.kubectl(t, "get", "nodetopology", local.NodeName, "-o", "jsonpath={.status.pools.exclusive}"); got != has {
			return got
		}
		return ""
	})
}
