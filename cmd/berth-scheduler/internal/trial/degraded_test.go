package trial

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/api/v1alpha1"
)

// waits expects that an opted-in pod says why it waits while an ordinary pod
// is bound as ever.
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

// soon expects that the pod is bound long before the queue's own retries.
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

// A topology that contradicts itself is not believed, in whichever way it does.
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
			n.Status.Conditions[i].Reason = "KubeletStaticPolicy"
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

// An agent that goes silent is noticed while the scheduler runs.
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

// A node of which everything vanishes, pods bound to it included, is no trap.
// withoutNodes waits until the scheduler has seen that no node is left: until an ordinary
// pod waits.
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
