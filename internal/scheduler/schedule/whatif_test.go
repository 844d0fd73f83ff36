package schedule

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/api/v1alpha1"
)

// nominate does what the framework does before it asks Filter about a node for which other pods are nominated.
func (c *cluster) nominate(state fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo, nominated ...*v1.Pod) (fwk.CycleState, *fakeNode) {
	c.t.Helper()
	clone, node := state.Clone(), info.Snapshot().(*fakeNode)
	for _, other := range nominated {
		node.AddPodInfo(fakePod{pod: other})
		if status := c.plugin.PreFilterExtensions().AddPod(c.ctx, clone, pod, fakePod{pod: other}, node); !status.IsSuccess() {
			c.t.Fatal(status.AsError())
		}
	}
	return clone, node
}

// A nominated pod reserves what it will need. Two nominated pods of 14 CPUs, one in each NUMA node of 16, leave no room
// for 8 CPUs in one node.
func TestNominatedPodsGetTrialPlacements(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		single := annotated(numaSpec, `{"numaTopologyPolicy":"SingleNUMANode"}`)
		hand := annotated(v1alpha1.AnnotationPlacement, `{"v":1,"topology":"`+machine().Hash()+`","containers":{"app":{"cpus":"0-1","mems":"0","policy":"exclusive"}}}`)
		first, second := c.pod("first", 14, single, hand), c.pod("second", 14, single)
		a := c.filter(c.pod("a", 8, single))
		if !a.status.IsSuccess() {
			t.Fatal(a.status.Message())
		}
		info := c.handle.snapshot["n1"]
		one, node := c.nominate(a.state, a.pod, info, first)
		if status := c.plugin.Filter(c.ctx, one, a.pod, node); !status.IsSuccess() {
			t.Errorf("with one nominated pod: %s", status.Message())
		}
		both, node := c.nominate(a.state, a.pod, info, first, second)
		if status := c.plugin.Filter(c.ctx, both, a.pod, node); status.Code() != fwk.Unschedulable {
			t.Errorf("with two nominated pods: %v", status)
		}
		// The original cycle is unchanged.
		if status := c.plugin.Filter(c.ctx, a.state, a.pod, info); !status.IsSuccess() {
			t.Errorf("without: %s", status.Message())
		}
		if len(cycleOf(a.state).trials) != 0 || cycleOf(a.state).altered {
			t.Error("AddPod changed the cycle that its own was cloned from")
		}
	})
}

// A pod must not use the CPUs that a nominated pod of the same or higher priority will need, if it fits beside them.
// Score and Reserve see the same node as Filter.
func TestReserveLeavesNominatedPodsTheirCPUs(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		for name, list := range map[string]string{"x": "0-3,16-19", "y": "8-9,24-25"} {
			there := c.spec(name, 8, annotated(v1alpha1.AnnotationPlacement, `{"v":1,"topology":"`+machine().Hash()+
				`","containers":{"app":{"cpus":"`+list+`","mems":"0-1","policy":"exclusive"}}}`))
			if name == "y" {
				there.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceCPU: quantity("4")}
				there.Spec.Containers[0].Resources.Requests = there.Spec.Containers[0].Resources.Limits
			}
			there.Spec.NodeName = "n1"
			c.create(there)
		}
		high, low := int32(100), int32(1)
		nominated := c.pod("nominated", 8, annotated(numaSpec, `{"numaTopologyPolicy":"SingleNUMANode"}`))
		nominated.Spec.Priority = &high
		c.handle.nominated = []*v1.Pod{nominated}
		// NUMA node 0 has 8 free CPUs in one L3 domain, and node 1 has 12. Alone, 8 CPUs fit best into the L3 domain of
		// the nominated pod's trial placement.
		first, second := c.filter(c.pod("alone", 8)), c.filter(c.pod("a", 8))
		second.pod.Spec.Priority = &low
		trial, _ := c.nominate(second.state, second.pod, c.handle.snapshot["n1"], nominated)
		held := cycleOf(trial).trials[nominated.UID].held
		promised := held.CPUs()
		if promised.Size() != 8 {
			t.Fatalf("the nominated pod would have CPUs %s", promised)
		}
		c.handle.nominated = nil
		c.reserve(first)
		alone := placedCPUs(t, first.state.data[reservationKey].(*reservation).annotation)
		if !alone.Intersects(promised) {
			t.Fatalf("alone the pod has CPUs %s, apart from %s: the test says nothing", alone, promised)
		}
		c.giveUp(first)
		c.look()
		c.handle.nominated = []*v1.Pod{nominated}
		c.reserve(second)
		if cpus := placedCPUs(t, second.state.data[reservationKey].(*reservation).annotation); cpus.Intersects(promised) {
			t.Errorf("the pod has CPUs %s, of which %s are for the nominated one", cpus, cpus.Intersect(promised))
		}
		c.giveUp(second)
		// A pod of higher priority may use the CPUs of the nominated pod.
		third, higher := c.filter(c.pod("b", 8)), int32(200)
		third.pod.Spec.Priority = &higher
		c.reserve(third)
		if cpus := placedCPUs(t, third.state.data[reservationKey].(*reservation).annotation); !cpus.Intersects(promised) {
			t.Errorf("the pod of higher priority has CPUs %s", cpus)
		}
		// A pod that does not fit beside the nominated pod is placed all the same.
		c.giveUp(third)
		fourth := c.filter(c.pod("c", 15))
		c.reserve(fourth)
	})
}

// A nominated pod that does not fit anywhere counts with all its CPUs.
func TestNominatedPodWithoutPlace(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		c.placed(c.pod("there", 20))
		waits := c.pod("waits", 10)
		a := c.filter(c.pod("a", 4))
		clone, node := c.nominate(a.state, a.pod, c.handle.snapshot["n1"], waits)
		if status := c.plugin.Filter(c.ctx, clone, a.pod, node); status.Code() != fwk.Unschedulable {
			t.Errorf("4 CPUs beside 20 held and 10 nominated: %v", status)
		}
	})
}

// An ordinary pod leaves room for the CPUs that a nominated pod will hide.
func TestOrdinaryPodBesideNominatedOne(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		nominated := c.pod("n", 20, requesting("1"))
		a := c.filter(c.ordinary("o", "13"))
		clone, node := c.nominate(a.state, a.pod, c.handle.snapshot["n1"], nominated)
		if status := c.plugin.Filter(c.ctx, clone, a.pod, node); status.Code() != fwk.Unschedulable {
			t.Errorf("13 CPUs beside a nominated pod that will have 20 of 32: %v", status)
		}
	})
}

// Preemption removes pods, asks Filter, and adds the pods again that need not go.
func TestPreemption(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		victims := []*v1.Pod{c.pod("v1", 10), c.pod("v2", 10), c.pod("v3", 10)}
		for _, pod := range victims {
			c.placed(pod)
		}
		pod := c.pod("p", 12)
		a := c.refused(pod, "")
		if a.status.Code() != fwk.Unschedulable {
			t.Fatalf("code %s: no pod is evicted for it", a.status.Code())
		}
		state, node := a.state.Clone(), c.handle.snapshot["n1"].Snapshot().(*fakeNode)
		filter := func() *fwk.Status { return c.plugin.Filter(c.ctx, state, pod, node) }
		var taken []fwk.PodInfo
		for _, info := range append([]fwk.PodInfo(nil), node.pods...) {
			taken = append(taken, info)
			if err := node.RemovePod(c.plugin.core.background.log, info.GetPod()); err != nil {
				t.Fatal(err)
			}
			c.plugin.RemovePod(c.ctx, state, pod, info, node)
		}
		if status := filter(); !status.IsSuccess() {
			t.Fatalf("on the emptied node: %s", status.Message())
		}
		back := 0
		for _, info := range taken {
			node.AddPodInfo(info)
			c.plugin.AddPod(c.ctx, state, pod, info, node)
			if filter().IsSuccess() {
				back++
				continue
			}
			if err := node.RemovePod(c.plugin.core.background.log, info.GetPod()); err != nil {
				t.Fatal(err)
			}
			c.plugin.RemovePod(c.ctx, state, pod, info, node)
		}
		if back != 1 {
			t.Errorf("%d of 3 pods of 10 CPUs may stay beside one of 12, want 1", back)
		}
		if status := c.plugin.Filter(c.ctx, a.state, pod, c.handle.snapshot["n1"]); status.IsSuccess() {
			t.Error("the trial changed the node")
		}
	})
}

// RemovePod also removes a pod whose binding was not seen yet.
func TestRemoveReservedPod(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		reserved := c.reserve(c.filter(c.pod("r", 20)))
		a := c.filter(c.pod("p", 20))
		state, node := a.state.Clone(), c.handle.snapshot["n1"].Snapshot().(*fakeNode)
		if err := node.RemovePod(c.plugin.core.background.log, reserved.pod); err != nil {
			t.Fatal(err)
		}
		c.plugin.RemovePod(c.ctx, state, a.pod, fakePod{pod: reserved.pod}, node)
		if status := c.plugin.Filter(c.ctx, state, a.pod, node); !status.IsSuccess() {
			t.Errorf("without the reserved pod: %s", status.Message())
		}
		node.AddPodInfo(fakePod{pod: reserved.pod})
		c.plugin.AddPod(c.ctx, state, a.pod, fakePod{pod: reserved.pod}, node)
		if status := c.plugin.Filter(c.ctx, state, a.pod, node); status.IsSuccess() {
			t.Error("with it again: it does not count")
		}
	})
}
