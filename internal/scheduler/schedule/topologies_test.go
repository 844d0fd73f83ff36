package schedule

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/api/v1alpha1"
)

// Without the NodeTopology type, the agent or its permission, ordinary pods are scheduled as usual. Pinned pods report
// the reason for their refusal.
func TestNodesThatPinNothing(t *testing.T) {
	tests := []struct {
		name   string
		make   func(*cluster)
		why    string
		mended func(*cluster)
	}{
		{
			"no type", func(c *cluster) {
				c.source.absent = true
				c.start()
				c.bareNode("n1")
				c.beat("n1")
			}, "no NodeTopology", func(c *cluster) {
				c.source.absent = false
				c.topology("n1", machine())
				time.Sleep(time.Minute) // the informer retries by itself
				c.beat("n1")
			},
		},
		{
			"no topology", func(c *cluster) {
				c.bareNode("n1")
				c.beat("n1")
			}, "no NodeTopology", func(c *cluster) { c.topology("n1", machine()) },
		},
		{
			"a topology that lies", func(c *cluster) {
				c.node("n1")
				c.source.set("n1", func(nt *v1alpha1.NodeTopology) { nt.Spec.L3[1].CPUs = nt.Spec.L3[0].CPUs })
			}, "had an invalid NodeTopology", func(c *cluster) { c.topology("n1", machine()) },
		},
		{
			"2,000 CPUs", func(c *cluster) {
				c.node("n1")
				c.source.set("n1", func(nt *v1alpha1.NodeTopology) { nt.Spec.Online = "0-1999" })
			}, "had an invalid NodeTopology", func(c *cluster) { c.topology("n1", machine()) },
		},
		{
			"no agent", func(c *cluster) {
				c.bareNode("n1")
				c.topology("n1", machine())
			}, "had a Berth agent that did not renew its Lease", func(c *cluster) { c.beat("n1") },
		},
		{
			"an agent that fell silent", func(c *cluster) {
				c.node("n1")
				time.Sleep(5 * time.Minute)
			}, "had a Berth agent that did not renew its Lease", func(c *cluster) { c.beat("n1") },
		},
		{
			"not pinnable", func(c *cluster) {
				c.node("n1")
				c.pinnable("n1", metav1.ConditionFalse, "KubeletCPUManager")
			}, "node(s) were not pinnable (KubeletCPUManager)", func(c *cluster) {
				c.pinnable("n1", metav1.ConditionTrue, "Ready")
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inCluster(t, `{}`, func(t *testing.T, c *cluster) {
				test.make(c)
				c.settle()
				if a := c.schedule(c.ordinary("o", "2")); !a.status.IsSuccess() {
					t.Errorf("an ordinary pod is refused: %s", a.status.Message())
				}
				c.handle.tookActivated()
				pod := c.pod("a", 4)
				a := c.refused(pod, test.why)
				if a.status.Code() != fwk.UnschedulableAndUnresolvable {
					t.Errorf("code %s: a pod would be evicted in vain", a.status.Code())
				}
				test.mended(c)
				c.expectActivated("default/a")
				c.placed(pod)
				c.beat("n1")
				c.expectActivated()
			})
		})
	}
}

// A NodeTopology can disappear and return, for example when its definition changes. In between, no pod may get the CPUs
// that other pods hold beyond their requests.
func TestPodsOutliveTheTopology(t *testing.T) {
	lie := func(nt *v1alpha1.NodeTopology) { nt.Spec.L3[1].CPUs = nt.Spec.L3[0].CPUs }
	for _, test := range []struct {
		name, why string
		gone      func(*cluster)
	}{
		{"gone", "no NodeTopology", func(c *cluster) { c.source.remove("n1") }},
		{"not valid", "had an invalid NodeTopology", func(c *cluster) { c.source.set("n1", lie) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			inCluster(t, `{}`, func(t *testing.T, c *cluster) {
				c.node("n1")
				hides := c.pod("h", 20, requesting("1"))
				c.placed(hides)
				c.refused(c.pod("w", 16), "")
				c.handle.tookActivated()
				test.gone(c)
				c.settle()
				c.expectActivated("default/w") // to report the new reason
				c.refused(c.ordinary("o", "16"), textPromised)
				c.refused(c.pod("a", 4), test.why)
				c.topology("n1", machine())
				c.settle()
				c.refused(c.ordinary("p", "16"), textPromised)
				c.disjoint()
				test.gone(c)
				c.settle()
				c.remove(hides)
				if a := c.schedule(c.ordinary("q", "31")); !a.status.IsSuccess() {
					t.Errorf("with no pod that holds CPUs: %s", a.status.Message())
				}
			})
		})
	}
}

// Agents write their status every few seconds. An unchanged spec is parsed once, and a contradiction in it is reported
// once.
func TestSpecIsReadOnce(t *testing.T) {
	var i interner
	lie := machine().Spec()
	lie.L3[1].CPUs = lie.L3[0].CPUs
	for _, spec := range []v1alpha1.NodeTopologySpec{machine().Spec(), lie} {
		reduced := func(change func(*v1alpha1.NodeTopology)) *machineOf {
			nt := &v1alpha1.NodeTopology{Spec: spec}
			nt.Name, nt.UID, nt.Generation = "n1", "u", 3
			if change != nil {
				change(nt)
			}
			return must(i.reduce(nt))(t).(*machineOf)
		}
		first := reduced(func(nt *v1alpha1.NodeTopology) { nt.Generation = 2; nt.Spec = v1alpha1.NodeTopologySpec{} })
		if first.problem == nil {
			t.Error("an empty spec has no problem")
		}
		second := reduced(nil)
		if second.machine == first.machine && errors.Is(second.problem, first.problem) {
			t.Error("a new spec is not read")
		}
		third := reduced(func(nt *v1alpha1.NodeTopology) {
			nt.Spec = v1alpha1.NodeTopologySpec{} // the plugin must ignore it
			nt.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionPinnable, Status: metav1.ConditionFalse}}
		})
		if third.machine != second.machine || !errors.Is(third.problem, second.problem) {
			t.Error("the same generation is read again")
		}
		if third.barred == "" {
			t.Error("the status is not read")
		}
		for _, change := range []func(*v1alpha1.NodeTopology){
			func(nt *v1alpha1.NodeTopology) { nt.UID = "v" },
			func(nt *v1alpha1.NodeTopology) { nt.Generation = 0 },
		} {
			if again := reduced(func(nt *v1alpha1.NodeTopology) { change(nt); nt.Spec = v1alpha1.NodeTopologySpec{} }); again.problem == nil || errors.Is(again.problem, second.problem) {
				t.Error("another object is not read")
			}
		}
	}
}

// A node accepts pinned pods until its agent reports otherwise. A report without a reason is valid too.
func TestPinnableIsAskedFor(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		c.placed(c.pod("a", 2))
		c.pinnable("n1", metav1.ConditionUnknown, "")
		c.refused(c.pod("b", 2), "node(s) were not pinnable (Unknown)")
	})
}

func (c *cluster) pinnable(name string, status metav1.ConditionStatus, reason string) {
	c.source.set(name, func(nt *v1alpha1.NodeTopology) {
		nt.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionPinnable, Status: status, Reason: reason}}
	})
	c.settle()
}

func TestLeasesNotLookedAt(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.bareNode("n1")
		c.topology("n1", machine())
		c.settle()
		c.placed(c.pod("a", 4))
	})
}

// A node's clock may be wrong by hours as long as the agent keeps renewing its Lease.
func TestClockOfTheNodeIsWrong(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		start := time.Now()
		for i := range 5 {
			c.plugin.core.agents.heard("n1", start.Add(-3*time.Hour).Add(time.Duration(i)*time.Second), time.Now())
			time.Sleep(10 * time.Second)
		}
		c.placed(c.pod("a", 4))
	})
}

// If the topology changes between Reserve and Bind, the binding is refused.
func TestTopologyChangesBeforeBind(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		pod := c.pod("a", 4)
		a := c.reserve(c.filter(pod))
		other := machine()
		other.Reserved = other.Reserved.Add(0).Add(16)
		c.topology("n1", other)
		c.settle()
		c.finish(a)
		if a.status.Code() != fwk.Unschedulable || a.status.Message() != textRebuilt {
			t.Errorf("Bind: %s %s", a.status.Code(), a.status.Message())
		}
		if cpus := c.placed(pod); cpus.Contains(0) || cpus.Contains(16) {
			t.Errorf("the pod has reserved CPUs: %s", cpus)
		}
	})
}

// Nodes with the same topology share one machine.
func TestMachinesAreShared(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		for i := range 20 {
			own := machine() // the memory size differs by a few pages from boot to boot
			own.Nodes[0].MemoryBytes = 70<<30 + int64(i)<<12
			c.topology("n"+strings.Repeat("x", i), own)
		}
		c.settle()
		first := c.plugin.core.nodes.find("n").machine
		for _, n := range c.plugin.core.nodes.all() {
			if n.machine != first || first == nil {
				t.Errorf("node %s has a machine of its own", n.name)
			}
		}
	})
}

func TestNodeThatIsGoneIsForgotten(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		pod := c.pod("a", 4)
		c.placed(pod)
		c.remove(pod)
		c.source.remove("n1")
		if err := c.client.CoordinationV1().Leases("berth-system").Delete(c.ctx, "n1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := c.client.CoreV1().Nodes().Delete(c.ctx, "n1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		c.settle()
		if nodes := c.plugin.core.nodes.all(); len(nodes) != 0 {
			t.Errorf("%d nodes are still known", len(nodes))
		}
	})
}

func TestNodePolicy(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		node := must(c.client.CoreV1().Nodes().Get(c.ctx, "n1", metav1.GetOptions{}))(t)
		node.Labels[v1alpha1.NodeLabelNUMATopologyPolicy] = "SingleNUMANode"
		must(c.client.CoreV1().Nodes().Update(c.ctx, node, metav1.UpdateOptions{}))(t)
		c.settle()
		differs := c.pod("a", 4, annotated(numaSpec, `{"numaTopologyPolicy":"BestEffort"}`))
		if a := c.refused(differs, "NUMA policy"); a.status.Code() != fwk.UnschedulableAndUnresolvable {
			t.Errorf("code %s", a.status.Code())
		}
		old := node.DeepCopy()
		delete(node.Labels, v1alpha1.NodeLabelNUMATopologyPolicy)
		if got := must(c.plugin.afterNode(c.plugin.core.background.log, differs, old, node))(t); got != fwk.Queue {
			t.Error("the changed label does not queue the pod")
		}
	})
}
