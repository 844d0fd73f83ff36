package schedule

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/api/v1alpha1"
)

type unknown = runtime.Unknown

func quantity(text string) resource.Quantity { return resource.MustParse(text) }

func TestEvents(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		events := must(c.plugin.EventsToRegister(c.ctx))(t)
		for _, event := range events {
			if event.Event.Resource != fwk.Pod && event.Event.Resource != fwk.Node {
				t.Errorf("%s is waited for at the start of the scheduler", event.Event.Resource)
			}
			if event.QueueingHintFn == nil {
				t.Errorf("%s: no hint", event.Event.Resource)
			}
		}
	})
}

// An event retries a pod only if the event can help it.
func TestHints(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		pinned, hiding := c.pod("pinned", 20), c.pod("hiding", 8, requesting("1"))
		c.placed(pinned)
		c.placed(hiding)
		c.schedule(c.ordinary("shares", "2"))
		shares := must(c.handle.informers.Core().V1().Pods().Lister().Pods("default").Get("shares"))(t)
		wantsCPUs, wantsRoom := c.pod("cpus", 22, requesting("1")), c.ordinary("room", "3")
		c.refused(wantsCPUs, "")
		c.refused(wantsRoom, textPromised)
		c.plugin.core.queue.done(wantsCPUs.UID)
		c.plugin.core.queue.note(wantsCPUs, refusedByCPUs, 0)

		stopped := c.get(pinned)
		delete(stopped.Annotations, v1alpha1.AnnotationCPUSetScheduler)
		elsewhere := c.get(pinned)
		elsewhere.Spec.NodeName = "bare"
		pending := c.get(wantsRoom)
		nominated := c.pod("nominated", 2)
		nominated.Status.NominatedNodeName = "n1"
		for _, test := range []struct {
			name       string
			gone       *v1.Pod
			cpus, room bool
		}{
			{"a pinned pod", c.get(pinned), true, true},
			{"a pinned pod that stopped asking", stopped, true, true},
			{"an ordinary pod", shares, false, true},
			{"a pinned pod of another kind of node", elsewhere, false, false},
			{"a pod that was nowhere", pending, false, false},
			{"a pod that was nominated", nominated, true, true},
		} {
			for pod, want := range map[*v1.Pod]bool{wantsCPUs: test.cpus, wantsRoom: test.room} {
				if got := must(c.plugin.afterPodDelete(c.plugin.core.background.log, pod, test.gone, nil))(t); (got == fwk.Queue) != want {
					t.Errorf("end of %s: pod %s: %s", test.name, pod.Name, got)
				}
			}
		}

		smaller := shares.DeepCopy()
		smaller.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = quantity("1")
		for pod, want := range map[*v1.Pod]bool{wantsCPUs: false, wantsRoom: true} {
			if got := must(c.plugin.afterPodUpdate(c.plugin.core.background.log, pod, shares, smaller))(t); (got == fwk.Queue) != want {
				t.Errorf("a pod that requests less: pod %s: %s", pod.Name, got)
			}
			if got := must(c.plugin.afterPodUpdate(c.plugin.core.background.log, pod, smaller, shares))(t); got == fwk.Queue {
				t.Errorf("a pod that requests more: pod %s: %s", pod.Name, got)
			}
		}
		own := wantsRoom.DeepCopy()
		own.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = quantity("1")
		if got := must(c.plugin.afterPodUpdate(c.plugin.core.background.log, wantsRoom, wantsRoom, own))(t); got != fwk.Queue {
			t.Errorf("the pod itself requests less: %s", got)
		}
	})
}

func TestNodeHints(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		c.bareNode("bare")
		c.settle()
		c.look()
		node, bare := c.handle.snapshot["n1"].node, c.handle.snapshot["bare"].node
		cpus, room := c.spec("cpus", 2), c.spec("room", 2)
		c.plugin.core.queue.note(cpus, refusedByCPUs, 0)
		c.plugin.core.queue.note(room, refusedByPromise, 0)
		larger, labelled, beaten := node.DeepCopy(), node.DeepCopy(), node.DeepCopy()
		larger.Status.Allocatable[v1.ResourceCPU] = quantity("40")
		labelled.Labels[v1alpha1.NodeLabelCPUBindPolicy] = "None"
		beaten.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady}}
		beaten.Labels["zone"] = "a"
		for _, test := range []struct {
			name          string
			before, after *v1.Node
			cpus, room    bool
		}{
			{"new node", nil, node, true, true},
			{"new node without a topology", nil, bare, false, true},
			{"more allocatable", node, larger, true, true},
			{"less allocatable", larger, node, false, false},
			{"another policy", node, labelled, true, false},
			{"something else", node, beaten, false, false},
		} {
			for pod, want := range map[*v1.Pod]bool{cpus: test.cpus, room: test.room} {
				var before any
				if test.before != nil {
					before = test.before
				}
				if got := must(c.plugin.afterNode(c.plugin.core.background.log, pod, before, test.after))(t); (got == fwk.Queue) != want {
					t.Errorf("%s: pod %s: %s", test.name, pod.Name, got)
				}
			}
		}
	})
}

// The scheduling queue ignores changes of annotations, so the plugin must activate the pod.
func TestPodThatAsksDifferently(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		pod := c.pod("a", 20, annotated(numaSpec, `{"numaTopologyPolicy":"SingleNUMANode"}`))
		c.refused(pod, "")
		c.handle.tookActivated()
		c.update(pod, func(p *v1.Pod) { p.Labels = map[string]string{"x": "y"} })
		c.expectActivated()
		c.update(pod, func(p *v1.Pod) { delete(p.Annotations, numaSpec) })
		c.expectActivated("default/a")
		c.placed(c.get(pod))
	})
}

// A changed placement of a bound pod takes effect at once, and activates the pods that may now fit.
func TestAgentChangesPlacement(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		placement := func(cpus string) option {
			return annotated(v1alpha1.AnnotationPlacement, `{"v":1,"topology":"`+machine().Hash()+
				`","containers":{"app":{"cpus":"`+cpus+`","mems":"0","policy":"exclusive"}}}`)
		}
		bound := c.spec("bound", 8, placement("0-3,8-11"))
		bound.Spec.NodeName = "n1"
		c.create(bound)
		waits := c.pod("a", 14, annotated(numaSpec, `{"numaTopologyPolicy":"SingleNUMANode"}`))
		c.refused(waits, "fewer than 14 free CPUs in one NUMA node")
		c.handle.tookActivated()
		c.update(bound, func(p *v1.Pod) { p.Status.Phase = v1.PodRunning })
		c.expectActivated()
		c.update(bound, placement("0-3,16-19"))
		c.expectActivated("default/a")
		if cpus := c.placed(waits); !cpus.IsSubsetOf(machine().Nodes[1].CPUs) {
			t.Errorf("the pod has CPUs %s", cpus)
		}
	})
}

// A bound pod that loses its annotation keeps its CPUs: it was pinned when it was created and still runs on them.
func TestPodThatStopsAsking(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		pod := c.pod("a", 20)
		c.placed(pod)
		c.update(pod, func(p *v1.Pod) { delete(p.Annotations, v1alpha1.AnnotationCPUSetScheduler) })
		c.refused(c.pod("b", 20), "")
		c.remove(pod)
		c.placed(c.pod("c", 20))
	})
}
