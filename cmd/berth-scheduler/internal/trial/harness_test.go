package trial

import (
	"testing"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"

	"github.com/berth-project/berth/cmd/berth-scheduler/internal/memapi"
)

const schedulerName = "berth-scheduler"

// plain returns kube-scheduler's default configuration under Berth's scheduler name.
func plain(t testing.TB) *config.KubeSchedulerConfiguration {
	t.Helper()
	cfg, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Profiles[0].SchedulerName = schedulerName
	return cfg
}

// TestHarness checks the test harness itself, with the default plugins only. Pods are bound, a pod that does not fit
// gives a reason, and a deletion frees CPUs.
func TestHarness(t *testing.T) {
	c := newCluster(t)
	c.addNode(node("n0", 4))
	c.schedule(plain(t), nil)
	c.create(ordinary("a", 3000, 0))
	c.bound("a")
	c.create(ordinary("b", 3000, 0))
	if got, want := c.pending("b"), "0/1 nodes are available: 1 Insufficient cpu."; len(got) < len(want) || got[:len(want)] != want {
		t.Fatalf("b waits because %q, want %q", got, want)
	}
	c.api.Remove(podPath, "default", "a")
	c.bound("b")
}

// TestHarnessFaults checks that the scheduler binds the pod after each fault of a binding.
func TestHarnessFaults(t *testing.T) {
	for fault := memapi.Refused; fault <= memapi.Late; fault++ {
		c := newCluster(t)
		c.addNode(node("n0", 4))
		c.schedule(plain(t), nil)
		failed := false
		c.api.FailBinds(func(string, string) memapi.Fault {
			if failed {
				return memapi.None
			}
			failed = true
			return fault
		})
		c.create(ordinary("a", 3000, 0))
		c.bound("a")
	}
}

func TestHarnessAway(t *testing.T) {
	c := newCluster(t)
	c.addNode(node("n0", 400))
	c.schedule(plain(t), nil)
	c.create(ordinary("a", 3000, 0))
	c.bound("a")
	c.api.Away(true)
	c.api.Away(false)
	c.create(ordinary("b", 3000, 0))
	c.bound("b")
}
