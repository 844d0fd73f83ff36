package schedule

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/placement"
)

// forged returns a placement that claims four CPUs.
func forged() string {
	return `{"v":1,"topology":"` + machine().Hash() + `","containers":{"app":{"cpus":"0-1,16-17","mems":"0","policy":"exclusive"}}}`
}

// An ordinary pod can arrive with a forged placement. Its binding removes the placement on every path, and the pod
// holds no CPU.
func TestForgedPlacementOfOrdinaryPod(t *testing.T) {
	tests := []struct {
		name, args, request string
		known               bool
	}{
		{"known node", `{"staleAfterSeconds":0}`, "1", true},
		{"no request", `{"staleAfterSeconds":0}`, "0", true},
		{"node without CPUs", `{"staleAfterSeconds":0}`, "1", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inCluster(t, test.args, func(t *testing.T, c *cluster) {
				if test.known {
					c.node("n1")
				} else {
					c.bareNode("n1")
					c.settle()
				}
				forger := c.spec("forger", 4, requesting(test.request))
				forger.Annotations = map[string]string{v1alpha1.AnnotationPlacement: forged(), "example.com/kept": "yes"}
				c.create(forger)
				if a := c.schedule(forger); !a.status.IsSuccess() {
					t.Fatal(a.status.Message())
				}
				bound := c.get(forger)
				if bound.Spec.NodeName != "n1" || bound.Annotations[v1alpha1.AnnotationPlacement] != "" || bound.Annotations["example.com/kept"] != "yes" {
					t.Errorf("on %q with %v", bound.Spec.NodeName, bound.Annotations)
				}
				if test.known {
					c.placed(c.pod("a", 30))
				}
				plain := c.ordinary("plain", "1")
				c.schedule(plain)
				if _, found := c.get(plain).Annotations[v1alpha1.AnnotationPlacement]; found {
					t.Error("a pod that never had a placement got an empty one")
				}
			})
		})
	}
}

// A forged placement on an ordinary pod that Berth did not bind holds nothing, neither when the pod appears as bound
// nor after the kubelet has reported it.
func TestForgedPlacementOfBoundPod(t *testing.T) {
	onNode := func(c *cluster, forger *v1.Pod) {
		forger.Spec.NodeName = "n1"
		c.create(forger)
	}
	tests := []struct {
		name  string
		bound func(*cluster, *v1.Pod)
	}{
		{"by its creator", onNode},
		{"by its creator, before the node is known", func(c *cluster, forger *v1.Pod) {
			c.source.remove("n1")
			c.settle()
			onNode(c, forger)
			c.update(forger, scheduled)
			c.topology("n1", machine())
			c.settle()
		}},
		{"by another scheduler", func(c *cluster, forger *v1.Pod) {
			c.create(forger)
			if err := c.carryOut(bindingOf(forger, "n1")); err != nil {
				c.t.Fatal(err)
			}
			c.settle()
		}},
		{"first, and given it then", func(c *cluster, forger *v1.Pod) {
			placement := forger.Annotations[v1alpha1.AnnotationPlacement]
			forger.Annotations = nil
			onNode(c, forger)
			c.update(forger, scheduled)
			c.update(forger, func(p *v1.Pod) { p.Annotations = map[string]string{v1alpha1.AnnotationPlacement: placement} })
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
				c.node("n1")
				forger := c.spec("forger", 4, requesting("1"))
				forger.Annotations = map[string]string{v1alpha1.AnnotationPlacement: forged()}
				test.bound(c, forger)
				c.counts(forger, 0)
				c.update(forger, scheduled)
				c.counts(forger, 0)
			})
		})
	}
}

// A restarted scheduler cannot tell a forged placement from a real one. It counts the CPUs until the agent, which gives
// the pod none, removes the placement.
func TestForgedPlacementIsTakenBack(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		forger := c.spec("forger", 4, requesting("1"))
		forger.Annotations = map[string]string{v1alpha1.AnnotationPlacement: forged()}
		forger.Spec.NodeName = "n1"
		c.create(forger)
		c.update(forger, scheduled)
		c.start()
		c.counts(forger, 4)
		c.refused(c.ordinary("waits", "29"), textPromised)
		c.handle.tookActivated()
		c.update(forger, func(p *v1.Pod) { delete(p.Annotations, v1alpha1.AnnotationPlacement) })
		c.counts(forger, 0)
		c.expectActivated("default/waits")
		c.update(forger, func(p *v1.Pod) { p.Annotations[v1alpha1.AnnotationPlacement] = forged() })
		c.counts(forger, 0)
	})
}

// A pod keeps the CPUs that it was given, however its annotations change later.
func TestPlacementOutlivesKeys(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		pod := c.pod("a", 4, requesting("1"))
		c.placed(pod)
		c.update(pod, func(p *v1.Pod) { delete(p.Annotations, v1alpha1.AnnotationCPUSetScheduler) })
		c.counts(pod, 4)
		c.start()
		c.counts(pod, 4)
		c.update(pod, func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} })
		c.counts(pod, 4)
	})
}

// scheduled adds the first condition that the kubelet reports for a pod that its creator bound.
func scheduled(p *v1.Pod) {
	p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue})
}

// counts fails unless the pod holds the given number of CPUs on n1, both in its record and for other pods. The pod
// requests one CPU.
func (c *cluster) counts(pod *v1.Pod, cpus int) {
	c.t.Helper()
	n := c.plugin.core.nodes.lock("n1")
	held := 0
	if r := n.records[pod.UID]; r != nil {
		held = r.held.CPUs().Size() + r.held.Unknown()
	}
	n.mu.Unlock()
	if held != cpus {
		c.t.Errorf("pod %s holds %d CPUs, want %d", pod.Name, held, cpus)
	}
	c.look()
	var o placement.Occupancy
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.occupy(view{info: c.handle.snapshot["n1"]}, &o); o.Taken.CPUs().Size()+o.Unknown != cpus {
		c.t.Errorf("of node n1 %s and %d unknown are held, want %d", o.Taken.CPUs(), o.Unknown, cpus)
	}
}
