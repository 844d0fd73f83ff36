package trial

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/api/v1alpha1"
)

// waits checks that an opted-in pod waits with this reason, and that an ordinary pod is bound in the same situation.
func (c *cluster) waits(reason string) {
	c.Helper()
	c.create(pinned("opted-in", 1, 4), ordinary("ordinary", 1000, 4000))
	c.bound("ordinary")
	got := c.pending("opted-in")
	c.Logf("it says: %s", got)
	if !strings.Contains(got, reason) {
		c.Fatalf("the opted-in pod waits because %q, want %q in it", got, reason)
	}
}

// soon waits until the opted-in pod is bound, and logs how long this took after the cause was gone. It sets no limit of
// its own.
func (c *cluster) soon() {
	c.Helper()
	start := time.Now()
	c.bound("opted-in")
	c.Logf("bound %v after the cause was gone", time.Since(start).Round(time.Millisecond))
	c.audit()
}

func TestMissingCRD(t *testing.T) {
	c := newCluster(t)
	c.api.Absent(topologyPath, true)
	c.addMachine("n0", small())
	c.begin()
	c.waits("opology")
	c.api.Absent(topologyPath, false)
	c.soon()
}

func TestMissingTopology(t *testing.T) {
	c := newCluster(t)
	c.addNode(node("n0", small().cpus()))
	c.renew("n0", 0)
	c.begin()
	c.waits("opology")
	c.publish(nodeTopology(t, "n0", small()))
	c.soon()
}

// TestLyingTopology checks that Berth rejects a topology that contradicts itself, for each kind of contradiction.
func TestLyingTopology(t *testing.T) {
	lies := map[string]func(*v1alpha1.NodeTopologySpec){
		"overlapping L3": func(s *v1alpha1.NodeTopologySpec) { s.L3[1].CPUs = "2-7" },
		"a CPU twice":    func(s *v1alpha1.NodeTopologySpec) { s.Cores[1] = "0-1" },
		"2,000 CPUs":     func(s *v1alpha1.NodeTopologySpec) { s.Online = "0-1999" },
		"another hash":   func(s *v1alpha1.NodeTopologySpec) { s.Hash = "0123456789abcdef" },
		"no cores":       func(s *v1alpha1.NodeTopologySpec) { s.Cores = nil },
		"empty":          func(s *v1alpha1.NodeTopologySpec) { *s = v1alpha1.NodeTopologySpec{} },
	}
	for what, lie := range lies {
		t.Run(what, func(t *testing.T) {
			c := newCluster(t)
			c.addMachine("n0", small())
			n := nodeTopology(t, "n0", small())
			lie(&n.Spec)
			c.publish(n)
			c.begin()
			c.waits("opology")
			c.publish(nodeTopology(t, "n0", small()))
			c.soon()
		})
	}
}

func TestNotPinnable(t *testing.T) {
	c := newCluster(t)
	c.addMachine("n0", small())
	n := nodeTopology(t, "n0", small())
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == v1alpha1.ConditionPinnable {
			n.Status.Conditions[i].Status = metav1.ConditionFalse
			n.Status.Conditions[i].Reason = "KubeletCPUManager"
		}
	}
	c.publish(n)
	c.begin()
	c.waits("inn")
	c.publish(nodeTopology(t, "n0", small()))
	c.soon()
}

func TestStaleLease(t *testing.T) {
	c := newCluster(t)
	c.addMachine("n0", small())
	c.renew("n0", time.Hour)
	c.begin()
	c.waits("agent")
	c.renew("n0", 0)
	c.soon()
}

// TestLeaseGrowsStale checks that a running scheduler notices an agent that stops renewing its Lease.
func TestLeaseGrowsStale(t *testing.T) {
	c := newCluster(t)
	c.addMachine("n0", small())
	c.renew("n0", 38*time.Second)
	c.begin()
	time.Sleep(2500 * time.Millisecond)
	c.waits("agent")
	c.renew("n0", 0)
	c.soon()
}

// withoutNodes waits until the scheduler has seen that no node is left: until an ordinary pod stays pending.
func (c *cluster) withoutNodes() {
	c.Helper()
	seen := 0
	c.until("the scheduler sees no node", func() bool {
		probe := name("probe", seen)
		seen++
		c.create(ordinary(probe, 1, 0))
		c.until(probe+" is decided", func() bool { p := c.pod(probe); return p.Spec.NodeName != "" || why(p) != "" })
		waits := c.pod(probe).Spec.NodeName == ""
		c.remove(probe)
		return waits
	})
}

// TestNodeVanishesAndReturns checks that a node whose objects all disappear, while a pod is bound to it, gets pods
// again after it returns.
func TestNodeVanishesAndReturns(t *testing.T) {
	c := newCluster(t)
	c.addMachine("n0", small())
	c.begin()
	c.create(pinned("a", 1, 4))
	c.bound("a")
	c.api.Remove(nodePath, "", "n0")
	c.api.Remove(topologyPath, "", "n0")
	c.withoutNodes()
	c.create(pinned("opted-in", 1, 4))
	t.Log(c.pending("opted-in"))
	c.remove("a")
	c.addMachine("n0", small())
	c.soon()
}
