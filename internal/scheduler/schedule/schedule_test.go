package schedule

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/api/v1alpha1"
)

const (
	resourceSpec = v1alpha1.AnnotationResourceSpec
	numaSpec     = v1alpha1.AnnotationNUMATopologySpec
)

func TestPodGetsCPUsWithItsBinding(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		pod := c.pod("a", 4)
		if cpus := c.placed(pod); cpus.Size() != 4 {
			t.Errorf("the pod has CPUs %s", cpus)
		}
		if c.requests != 1 {
			t.Errorf("%d requests bound it, want 1", c.requests)
		}
		if got := c.get(pod).Spec.NodeName; got != "n1" {
			t.Errorf("it is on node %q", got)
		}
	})
}

func TestOrdinaryPodIsLeftToOthers(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.bareNode("n1")
		c.settle()
		a := c.filter(c.ordinary("o", "2"))
		if status := c.plugin.PreScore(c.ctx, a.state, a.pod, nil); !status.IsSkip() {
			t.Error("PreScore does not skip")
		}
		c.reserve(a)
		if status := c.plugin.Bind(c.ctx, a.state, a.pod, a.node); !status.IsSkip() {
			t.Errorf("Bind: %v", status)
		}
		if c.requests != 0 {
			t.Error("Bind sent something")
		}
	})
}

// On a node with known CPUs the plugin binds ordinary pods too, with the same single request as any other binder.
func TestOrdinaryPodIsBound(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		c.fault = func(b *v1.Binding) (bool, error) {
			if len(b.Annotations) > 0 {
				t.Errorf("the binding says %v", b.Annotations)
			}
			return true, nil
		}
		a := c.reserve(c.filter(c.ordinary("o", "2")))
		if status := c.plugin.Bind(c.ctx, a.state, a.pod, a.node); !status.IsSuccess() {
			t.Errorf("Bind: %v", status)
		}
		if c.requests != 1 || c.get(a.pod).Spec.NodeName != "n1" {
			t.Errorf("%d requests, pod on node %q", c.requests, c.get(a.pod).Spec.NodeName)
		}
	})
}

// Filter and Reserve agree until nothing fits any more, and no CPU is given out twice.
func TestFilterAgreesWithReserve(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		c.node("n2")
		sizes := []int{4, 3, 1, 6, 2, 5, 1, 2, 8, 4, 7, 3, 2, 1, 1, 2, 6, 1}
		options := [][]option{
			nil,
			{annotated(resourceSpec, `{"preferredCPUBindPolicy":"SpreadByPCPUs"}`)},
			{annotated(resourceSpec, `{"requiredCPUExclusivePolicy":"PCPULevel"}`)},
			{annotated(numaSpec, `{"numaTopologyPolicy":"SingleNUMANode"}`)},
			{annotated(v1alpha1.AnnotationCPUPolicy, "static-burst")},
		}
		placed := 0
		for i, size := range sizes {
			pod := c.pod(string(rune('a'+i)), size, options[i%len(options)]...)
			a := c.filter(pod)
			if !a.status.IsSuccess() {
				continue
			}
			if c.reserve(a); !a.status.IsSuccess() {
				t.Fatalf("pod %d: Filter takes node %s, Reserve says %s", i, a.node, a.status.Message())
			}
			made, err := a.state.Read(reservationKey)
			if err != nil {
				t.Fatal(err)
			}
			c.finish(a)
			if got := c.get(pod).Annotations[v1alpha1.AnnotationPlacement]; got != made.(*reservation).annotation {
				t.Errorf("pod %d has %s, reserved was %s", i, got, made.(*reservation).annotation)
			}
			placed++
			c.disjoint()
		}
		if placed < 10 || placed == len(sizes) {
			t.Errorf("%d of %d pods were placed: the test says nothing", placed, len(sizes))
		}
	})
}

// A pinned pod that requests less than its limit hides CPUs from the sum of requests. Ordinary pods must not get them.
func TestHiddenCPUsCountForOrdinaryPods(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		for _, name := range []string{"a", "b", "c", "d"} {
			c.placed(c.pod(name, 6, requesting("1")))
		}
		// 24 CPUs are pinned and 4 requested: 8 are left, not 28.
		c.refused(c.ordinary("big", "8500m"), textPromised)
		if a := c.schedule(c.ordinary("fits", "8")); !a.status.IsSuccess() {
			t.Error(a.status.Message())
		}
		c.refused(c.ordinary("one more", "100m"), textPromised)
	})
}

func TestUnknownCPUsOfPodWithoutPlacement(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		stray := c.spec("stray", 20)
		stray.Spec.NodeName = "n1"
		c.create(stray)
		c.refused(c.pod("a", 12), "")
		c.placed(c.pod("b", 8))
	})
}

// A bound pod keeps its CPUs if its annotations change, also after a restart of the scheduler.
func TestKeysRemovedFromBoundPod(t *testing.T) {
	for name, change := range map[string]func(*v1.Pod){
		"removed": func(p *v1.Pod) { delete(p.Annotations, v1alpha1.AnnotationCPUSetScheduler) },
		"false":   annotated(v1alpha1.AnnotationCPUSetScheduler, "false"),
		"invalid": annotated(v1alpha1.AnnotationCPUSetScheduler, "yes"),
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
				c.node("n1")
				first := c.pod("a", 4, requesting("1"))
				c.placed(first)
				c.update(first, change)
				c.placed(c.pod("b", 4))
				c.start()
				c.placed(c.pod("c", 4))
				c.disjoint()
				c.refused(c.ordinary("o", "20500m"), textPromised)
				c.remove(first)
				if a := c.schedule(c.ordinary("p", "24")); !a.status.IsSuccess() {
					t.Error(a.status.Message())
				}
			})
		})
	}
}

// Annotations that are added after the binding give the pod no CPUs.
func TestKeysAddedToBoundPod(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		pod := c.spec("a", 28, requesting("1m"))
		pod.Annotations = nil
		c.create(pod)
		if a := c.schedule(pod); !a.status.IsSuccess() {
			t.Fatal(a.status.Message())
		}
		c.update(pod, func(p *v1.Pod) { p.Annotations = map[string]string{v1alpha1.AnnotationCPUSetScheduler: "true"} })
		c.update(pod, func(p *v1.Pod) { p.Status.Phase = v1.PodRunning })
		if a := c.schedule(c.ordinary("o", "20")); !a.status.IsSuccess() {
			t.Error(a.status.Message())
		}
		c.placed(c.pod("b", 8))
		c.remove(pod)
		if n := c.plugin.core.nodes.find("n1"); len(n.late) != 0 {
			t.Error("it is remembered after its end")
		}
	})
}

// A placement that a user writes into the annotation of an unbound pod has no effect.
func TestHandWrittenPlacement(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		first := c.pod("a", 2)
		c.placed(first)
		copied := c.get(first).Annotations[v1alpha1.AnnotationPlacement]
		c.placed(c.pod("b", 2, annotated(v1alpha1.AnnotationPlacement, copied)))
		c.disjoint()
		ordinary := c.spec("c", 2, annotated(v1alpha1.AnnotationPlacement, `{"v":1,"topology":"0123456789abcdef","containers":{"app":{"cpus":"0-31","mems":"0","policy":"exclusive"}}}`))
		delete(ordinary.Annotations, v1alpha1.AnnotationCPUSetScheduler)
		c.create(ordinary)
		if a := c.schedule(ordinary); !a.status.IsSuccess() {
			t.Fatal(a.status.Message())
		}
		c.placed(c.pod("d", 2))
		c.disjoint()
	})
}

func TestCompletedPodReleases(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		first := c.pod("a", 30)
		c.placed(first)
		c.refused(c.pod("b", 30), "")
		c.update(first, func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded })
		// The real informer drops completed pods. Here the NodeInfo still contains the pod with its request.
		second := c.pod("c", 2)
		c.update(first, func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests = nil })
		c.placed(second)
		c.placed(c.pod("d", 28))
	})
}

// A restarted scheduler reads from the pods which CPUs are given out.
func TestRestart(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		for _, name := range []string{"a", "b", "c"} {
			c.placed(c.pod(name, 6))
		}
		reserved := c.filter(c.pod("lost", 6))
		c.reserve(reserved) // The process dies before it binds.
		c.start()
		c.settle()
		c.placed(reserved.pod)
		c.placed(c.pod("d", 6))
		c.disjoint()
		c.refused(c.pod("e", 6), "")
	})
}

func TestScoreTakesTheNodeThatSuitsBest(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		c.node("n2")
		// The pods of n1 occupy all its L3 domains, so that none has 8 free CPUs.
		for i, list := range []string{"0-1,16-17", "4-5,20-21", "8-9,24-25", "12-13,28-29"} {
			pod := c.spec(string(rune('a'+i)), 4, annotated(v1alpha1.AnnotationPlacement,
				`{"v":1,"topology":"`+machine().Hash()+`","containers":{"app":{"cpus":"`+list+`","mems":"0-1","policy":"exclusive"}}}`))
			pod.Spec.NodeName = "n1"
			c.create(pod)
		}
		pod := c.pod("p", 8)
		c.placed(pod)
		if got := c.get(pod).Spec.NodeName; got != "n2" {
			t.Errorf("8 CPUs went to node %s, where no L3 has them", got)
		}
	})
}

// The snapshot of a pod group's binding cycle is older than the reservations of the group's first pods.
func TestPodGroup(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		pods := []*v1.Pod{c.pod("a", 8), c.pod("b", 8), c.pod("c", 8)}
		c.look()
		before := c.handle.snapshot["n1"].Snapshot().(*fakeNode)
		var rehearsed []*attempt
		for _, pod := range pods {
			a := &attempt{state: newState(), pod: pod.DeepCopy(), refusals: map[string]int{}}
			a.state.group = true
			if c.choose(a); !a.status.IsSuccess() {
				t.Fatal(a.status.Message(), a.refusals)
			}
			if c.reserve(a); !a.status.IsSuccess() {
				t.Fatal(a.status.Message())
			}
			rehearsed = append(rehearsed, a)
		}
		for _, a := range rehearsed {
			c.plugin.Unreserve(c.ctx, a.state, a.pod, a.node)
		}
		c.handle.snapshot["n1"] = before
		for i, a := range rehearsed {
			a.state.group = false
			a.pod = pods[i]
			if c.reserve(a); !a.status.IsSuccess() {
				t.Fatalf("pod %d: %s", i, a.status.Message())
			}
		}
		for _, a := range rehearsed {
			if c.finish(a); !a.status.IsSuccess() {
				t.Fatal(a.status.Message())
			}
		}
		c.disjoint()
	})
}

func TestSignPod(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		sign := func(pod *v1.Pod) []fwk.SignFragment {
			fragments, status := c.plugin.SignPod(c.ctx, pod)
			if !status.IsSuccess() {
				t.Fatal(status.Message())
			}
			return fragments
		}
		ordinary := c.spec("o", 2)
		ordinary.Annotations = nil
		if got := sign(ordinary); got != nil {
			t.Errorf("an ordinary pod is signed %v", got)
		}
		if got := sign(c.spec("i", 2, annotated(v1alpha1.AnnotationCPUSetScheduler, "yes"))); got != nil {
			t.Errorf("an invalid pod is signed %v", got)
		}
		a, b := sign(c.spec("a", 2)), sign(c.spec("b", 2))
		if len(a) != 1 || len(b) != 1 || a[0] != b[0] {
			t.Errorf("two equal pods are signed %v and %v", a, b)
		}
		for _, other := range []*v1.Pod{
			c.spec("c", 3),
			c.spec("d", 2, requesting("1")),
			c.spec("e", 2, annotated(numaSpec, `{"numaTopologyPolicy":"SingleNUMANode"}`)),
		} {
			if got := sign(other); len(got) != 1 || got[0] == a[0] {
				t.Errorf("pod %s is signed %v like pod a", other.Name, got)
			}
		}
	})
}
