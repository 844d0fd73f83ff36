package schedule

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/placement"
)

func limits(cpus int) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(cpus), resource.DecimalSI)}
}

// resize acts as a client of the resize subresource: the limit changes, the request stays, and the status still shows
// the resources that are in effect.
func resize(to int) func(*v1.Pod) {
	return func(p *v1.Pod) {
		c := &p.Spec.Containers[0]
		if len(p.Status.ContainerStatuses) == 0 {
			p.Status.ContainerStatuses = []v1.ContainerStatus{{
				Name: c.Name, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}, Resources: c.Resources.DeepCopy(),
			}}
		}
		p.Status.ObservedGeneration = max(p.Generation, 1)
		p.Generation = p.Status.ObservedGeneration + 1
		c.Resources.Limits = limits(to)
	}
}

// carriedOut sets the status that the kubelet reports after a completed resize.
func carriedOut(p *v1.Pod) {
	p.Status.ContainerStatuses[0].Resources = p.Spec.Containers[0].Resources.DeepCopy()
	p.Status.Conditions = p.Status.Conditions[:1]
	p.Status.ObservedGeneration = p.Generation
}

// putOff sets the status that the kubelet reports for a deferred or infeasible resize.
func putOff(reason string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions[:1:1], v1.PodCondition{Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: reason})
	}
}

// has sets the placement that the agent writes.
func has(cpus string) func(*v1.Pod) {
	return annotated(v1alpha1.AnnotationPlacement, `{"v":1,"topology":"`+machine().Hash()+`","containers":{"app":{"cpus":"`+cpus+`","mems":"0-1","policy":"exclusive"}}}`)
}

// While a node chooses CPUs for a resize, no other pod gets CPUs there. The CPUs of the resize count from its
// beginning, whether they are known or not.
func TestResizeHoldsCPUs(t *testing.T) {
	underWay := "node(s) had a resize or a move of exclusive CPUs under way"
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		a := c.pod("a", 4, requesting("1"))
		c.placed(a)
		c.update(a, resize(20))
		waits := c.pod("waits", 2)
		if refused := c.refused(waits, underWay); refused.status.Code() != fwk.UnschedulableAndUnresolvable {
			t.Errorf("code %s: a pod would be evicted for it", refused.status.Code())
		}
		c.refused(c.ordinary("large", "13"), textPromised) // 32 less 20
		c.placedOrdinary(c.ordinary("fits", "2"))
		c.handle.tookActivated()

		c.update(a, putOff(v1.PodReasonDeferred))
		c.expectActivated("default/large", "default/waits")
		c.refused(c.pod("b", 11), "CPUs promised to") // 10 are left
		b := c.pod("c", 2)
		c.placed(b)
		c.update(a, putOff(v1.PodReasonInfeasible))
		d := c.pod("d", 12)
		c.placed(d)
		c.remove(b)
		c.remove(d)

		c.update(a, resize(20))
		c.update(a, func(p *v1.Pod) { p.Status.Conditions = p.Status.Conditions[:1] })
		c.refused(waits, underWay)
		c.handle.tookActivated()
		c.update(a, has("0-9,16-25"))
		c.expectActivated("default/b", "default/large", "default/waits")
		if cpus := c.placed(waits); cpus.Size() != 2 {
			t.Errorf("CPUs %s", cpus)
		}
		c.update(a, carriedOut)
		c.disjoint()
	})
}

// Without an observed generation, the kubelet reports the old limit of a container without a quota for as long as it
// runs. The resize counts but does not close the node. A resize that the kubelet reports as in progress closes it.
func TestResizeOfKubeletThatDoesNotSay(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		a := c.pod("a", 4)
		c.placed(a)
		c.update(a, resize(20))
		c.update(a, func(p *v1.Pod) { p.Status.ObservedGeneration = 0 })
		c.placed(c.pod("b", 2))
		c.refused(c.pod("c", 11), "CPUs promised to") // 8 are left, and a core for the shared pool
		c.update(a, func(p *v1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: v1.PodResizeInProgress, Status: v1.ConditionTrue})
		})
		c.refused(c.pod("d", 2), "a resize or a move of exclusive CPUs under way")
	})
}

// placedOrdinary binds an ordinary pod.
func (c *cluster) placedOrdinary(pod *v1.Pod) {
	c.t.Helper()
	if a := c.schedule(pod); !a.status.IsSuccess() {
		c.t.Fatalf("pod %s: %s", pod.Name, a.status.Message())
	}
}

// A pod whose resize the kubelet carried out may still wait for CPUs from the agent. These CPUs count, and the node
// accepts other pods beside them.
func TestResizeWithoutCPUsCounts(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		a, b := c.pod("a", 4, requesting("1")), c.pod("b", 20)
		c.placed(a)
		c.placed(b)
		c.update(a, resize(10))
		c.update(a, carriedOut)
		c.refused(c.pod("c", 2), "no whole core left for the shared pool")
		c.remove(b)
		c.placed(c.pod("d", 18))
	})
}

// A shrinking pod holds its CPUs until its annotation has changed and the kubelet has finished.
func TestResizeToFewer(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		a := c.pod("a", 28)
		c.placed(a)
		c.update(a, resize(4))
		c.refused(c.pod("b", 8), "")
		c.handle.tookActivated()
		c.update(a, has("0-1,16-17"))
		c.refused(c.pod("c", 8), "a resize or a move of exclusive CPUs under way")
		c.handle.tookActivated()
		c.update(a, carriedOut)
		c.expectActivated("default/b", "default/c")
	})
}

// At the end of a resize the plugin activates the waiting pods before the scheduler's cache has the change. Their cycle
// can begin with a snapshot of the running resize, so they must be retried afterwards.
func TestResizeIsOverBeforeTheSnapshotShowsIt(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		a, waits := c.pod("a", 28, requesting("1")), c.pod("b", 8)
		c.placed(a)
		c.update(a, resize(4))
		c.update(a, has("0-1,16-17"))
		c.refused(waits, "a resize or a move of exclusive CPUs under way")
		c.handle.tookActivated()
		c.update(a, carriedOut)
		c.expectActivated("default/b")
		if again := c.filterBehind(waits); again.status.IsSuccess() {
			t.Error("placed by what the snapshot does not show yet")
		}
		c.expectActivated("default/b")
		c.placed(waits)
	})
}

// A resize begins after a pod's CPUs were reserved. The binding is refused, because the node may choose the same CPUs.
func TestResizeBeforeBinding(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		a := c.pod("a", 4)
		c.placed(a)
		b := c.reserve(c.filter(c.pod("b", 4)))
		c.update(a, resize(8))
		if c.finish(b); b.status.Message() != textRace {
			t.Errorf("bound while a resize is under way: %v", b.status)
		}
	})
}

// The memo must not return an answer from before a resize.
func TestResizeIsNotForgottenByMemo(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		a := c.pod("a", 4)
		c.placed(a)
		b := c.pod("b", 4)
		for i := range 3 {
			if one := c.filter(b); !one.status.IsSuccess() {
				t.Fatal(one.status.Message())
			}
			c.update(a, resize(8+i))
			c.refused(b, placement.Refusal{Code: placement.Resizing}.String())
			c.update(a, has(fmt.Sprintf("0-3,16-%d", 19+i)))
			c.update(a, carriedOut)
		}
	})
}

// During a move, no other pod gets the CPUs that the pod has or will have. A scheduler that started later knows this
// too, and earlier decisions are refused at Bind. After the agent's answer, the free CPUs are available and waiting
// pods are retried.
func TestMoveHoldsCPUs(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		asks := annotated(v1alpha1.AnnotationMove, `{"v":1,"from":"0-1,16-17","to":"2-3,18-19"}`)
		a := c.holding("a", "n1", "0-1,16-17", 4, annotated(v1alpha1.AnnotationMovable, "true"))
		early := c.reserve(c.filter(c.pod("early", 4)))
		c.update(a, asks)
		if c.finish(early); early.status.Message() != textRace {
			t.Errorf("bound while a move is under way: %v", early.status)
		}
		c.refused(c.pod("b", 4), placement.Refusal{Code: placement.Resizing}.String())
		n := c.plugin.core.nodes.find("n1")
		if next, _, _ := readRecord(n.machine, c.get(a), flight{}); !next.held.Resizing() || next.held.Unknown() != 4 || next.held.ExtraMilli() != 4000 {
			t.Errorf("the next leader counts %d unknown CPUs and %d besides, resizing %v", next.held.Unknown(), next.held.ExtraMilli(), next.held.Resizing())
		}
		c.update(a, annotated(v1alpha1.AnnotationMovable, "false"))
		c.refused(c.pod("flipped", 4), placement.Refusal{Code: placement.Resizing}.String())
		c.update(a, has("2-3,18-19"))
		c.refused(c.pod("c", 4), placement.Refusal{Code: placement.Resizing}.String())
		c.handle.tookActivated()
		c.update(a, func(p *v1.Pod) { delete(p.Annotations, v1alpha1.AnnotationMove) })
		c.expectActivated("default/b", "default/c", "default/flipped")
		d := c.pod("d", 4)
		c.placed(d)
		if cpus := c.cpus(d); cpus.Intersects(c.cpus(a)) {
			t.Errorf("pod d has %s", cpus)
		}
	})
}

// A move closes no node if the agent refused it, or if its origin is not the CPUs of the pod.
func TestMoveThatIsNone(t *testing.T) {
	const move = `{"v":1,"from":"0-1,16-17","to":"2-3,18-19"`
	for name, asks := range map[string][2]string{
		"refused":    {"true", move + `,"refused":"no"}`},
		"other CPUs": {"true", `{"v":1,"from":"4-5,20-21","to":"2-3,18-19"}`},
		"not there":  {"true", `{"v":1,"from":"0-1,16-17","to":"200-203"}`},
		"unreadable": {"true", `{"v":1,"from":"0-1,16-17","to":""}`},
	} {
		inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
			c.node("n1")
			c.holding("a", "n1", "0-1,16-17", 4, annotated(v1alpha1.AnnotationMovable, asks[0]), annotated(v1alpha1.AnnotationMove, asks[1]))
			if one := c.filter(c.pod("b", 4)); !one.status.IsSuccess() {
				t.Errorf("%s: %s", name, one.status.Message())
			}
		})
	}
}
