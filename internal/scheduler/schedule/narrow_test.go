package schedule

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// crowd adds the given number of nodes with live agents.
func (c *cluster) crowd(nodes int) {
	for i := range nodes {
		name := fmt.Sprintf("n%02d", i)
		c.bareNode(name)
		c.topology(name, machine())
		c.beat(name)
	}
	c.settle()
}

// shown runs PreFilter and returns the number of nodes that the pod is shown, 0 for all.
func (c *cluster) shown(pod *v1.Pod) (*fakeState, int) {
	c.t.Helper()
	c.look()
	state := newState()
	result, status := c.plugin.PreFilter(c.ctx, state, pod, c.list())
	if !status.IsSuccess() {
		c.t.Fatal(status.Message())
	}
	if result.AllNodes() {
		return state, 0
	}
	return state, len(result.NodeNames)
}

// A pod is shown only its best nodes once. The plugin asks the queue in advance to retry it, and the retry shows all
// nodes. For a while the pods after it are shown all nodes too.
func TestBestNodesAreShownOnce(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.crowd(mostBest + 1)
		pod := c.pod("a", 4)
		if _, shown := c.shown(pod); shown != mostBest {
			t.Errorf("a pod is shown %d nodes at its first try, want %d", shown, mostBest)
		}
		if got := c.handle.tookActivated(); len(got) != 1 || got[0] != "default/a" {
			t.Errorf("the queue is to try %v again, want the pod", got)
		}
		if _, shown := c.shown(pod); shown != 0 {
			t.Errorf("at its second try it is shown %d nodes, want all", shown)
		}
		if got := c.handle.tookActivated(); len(got) != 0 {
			t.Errorf("a pod that saw all nodes is tried again: %v", got)
		}
		for i := range shortPause {
			if _, shown := c.shown(c.pod(fmt.Sprintf("b%d", i), 4)); shown != 0 {
				t.Fatalf("pod %d after the failure is shown %d nodes, want all", i, shown)
			}
		}
		if _, shown := c.shown(c.pod("c", 4)); shown != mostBest {
			t.Errorf("after the pause a pod is shown %d nodes, want %d", shown, mostBest)
		}
	})
}

// A pod that is bound at its first attempt leaves no entry behind.
func TestBoundPodsAreNoFailures(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.crowd(mostBest + 1)
		for i := range 5 {
			c.placed(c.pod(fmt.Sprintf("a%d", i), 4))
		}
		gone := c.pod("gone", 4)
		c.shown(gone)
		if left := len(c.plugin.core.tries.pods); left != 1 {
			t.Errorf("%d pods are remembered, want the one that is pending", left)
		}
		c.remove(gone)
		if left := len(c.plugin.core.tries.pods); left != 0 {
			t.Errorf("%d pods are remembered", left)
		}
	})
}

// While a pod was shown only its best nodes, no pod is evicted for it, even if an eviction would make room.
func TestNoPodIsEvictedForAFewNodes(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		c.crowd(mostBest + 1)
		low := c.pod("low", 4)
		c.placed(low)
		node, pod := c.get(low).Spec.NodeName, c.pod("high", 4)
		for _, want := range []fwk.Code{fwk.UnschedulableAndUnresolvable, fwk.Success} {
			state, _ := c.shown(pod)
			info, dry := c.handle.snapshot[node].Snapshot(), state.Clone()
			if status := c.plugin.Filter(c.ctx, dry, pod, info); !status.IsSuccess() {
				t.Fatalf("the node refuses the pod: %s", status.Message())
			}
			c.plugin.RemovePod(c.ctx, dry, pod, fakePod{pod: c.get(low)}, info)
			if status := c.plugin.Filter(c.ctx, dry, pod, info); status.Code() != want {
				t.Errorf("without the other pod Filter says %v %q, want %v", status.Code(), status.Message(), want)
			}
		}
	})
}

// If anything other than Berth, requests and taints restricts the nodes of a pod, the pod is shown all nodes.
func TestAllNodesAreShown(t *testing.T) {
	owned := func(kind string) option {
		yes := true
		return func(p *v1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "o", Controller: &yes}}
		}
	}
	volume := func(v v1.VolumeSource) option {
		return func(p *v1.Pod) { p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v}} }
	}
	web := func(p *v1.Pod) { p.Labels = map[string]string{"app": "web"} }
	for name, test := range map[string]struct {
		pod   option
		given func(*cluster)
		want  int
	}{
		"plain":            {want: mostBest},
		"of a Job":         {pod: owned("Job"), want: mostBest},
		"config":           {pod: volume(v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}), want: mostBest},
		"labels of none":   {pod: func(p *v1.Pod) { p.Labels = map[string]string{"app": "other"} }, given: withService, want: mostBest},
		"selector":         {pod: func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": "n03"} }, want: 1},
		"affinity":         {pod: func(p *v1.Pod) { p.Spec.Affinity = &v1.Affinity{} }},
		"spread":           {pod: func(p *v1.Pod) { p.Spec.TopologySpreadConstraints = make([]v1.TopologySpreadConstraint, 1) }},
		"claim":            {pod: func(p *v1.Pod) { p.Spec.ResourceClaims = make([]v1.PodResourceClaim, 1) }},
		"disk":             {pod: volume(v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}})},
		"host port":        {pod: func(p *v1.Pod) { p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80}} }},
		"device":           {pod: func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests["x.y/gpu"] = resource.MustParse("1") }},
		"nominated itself": {pod: func(p *v1.Pod) { p.Status.NominatedNodeName = "n01" }},
		"of a ReplicaSet":  {pod: owned("ReplicaSet")},
		"of a Service":     {pod: web, given: withService},
		"nominated pods":   {given: func(c *cluster) { c.handle.nominated = []*v1.Pod{c.spec("x", 1)} }},
		"kept apart":       {given: func(c *cluster) { c.handle.apart = c.list() }},
		"an extender":      {given: func(c *cluster) { c.handle.extenders = make([]fwk.Extender, 1) }},
		"better avoided":   {given: func(c *cluster) { c.taint(v1.TaintEffectPreferNoSchedule) }},
		"tainted":          {given: func(c *cluster) { c.taint(v1.TaintEffectNoSchedule) }},
		"too much memory": {pod: func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Requests[v1.ResourceMemory] = resource.MustParse("1Ti")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, `{}`, func(t *testing.T, c *cluster) {
				c.crowd(mostBest + 4)
				c.look()
				if test.given != nil {
					test.given(c)
					c.settle()
				}
				options := []option{}
				if test.pod != nil {
					options = append(options, test.pod)
				}
				if _, shown := c.shown(c.pod("a", 4, options...)); shown != test.want {
					t.Errorf("the pod is shown %d nodes, want %d (0: all)", shown, test.want)
				}
			})
		})
	}
}

func withService(c *cluster) {
	must(c.client.CoreV1().Services("default").Create(c.ctx, &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: v1.ServiceSpec{Selector: map[string]string{"app": "web"}},
	}, metav1.CreateOptions{}))(c.t)
}

// taint adds a taint to all nodes.
func (c *cluster) taint(effect v1.TaintEffect) {
	for name := range c.handle.snapshot {
		node := must(c.client.CoreV1().Nodes().Get(c.ctx, name, metav1.GetOptions{}))(c.t)
		node.Spec.Taints = []v1.Taint{{Key: "k", Effect: effect}}
		must(c.client.CoreV1().Nodes().Update(c.ctx, node, metav1.UpdateOptions{}))(c.t)
	}
}

// A pod that is not shown its best nodes is shown only the nodes with an agent, if these are few. Such a pod is retried
// when another node gets an agent, and may have other pods evicted.
func TestOpenNodesAreShownWhereTheyAreFew(t *testing.T) {
	inCluster(t, `{}`, func(t *testing.T, c *cluster) {
		spread := func(p *v1.Pod) { p.Spec.TopologySpreadConstraints = make([]v1.TopologySpreadConstraint, 1) }
		for i := range 8 {
			c.bareNode(fmt.Sprintf("bare%d", i))
		}
		pod := c.pod("a", 4, spread)
		for open, want := range []int{0, 1, 2, 0} {
			if open > 0 {
				c.node(fmt.Sprintf("open%d", open))
			}
			if activated := c.handle.tookActivated(); open == 2 && len(activated) == 0 {
				t.Error("the pod is not tried again when there is another open node")
			}
			state, shown := c.shown(pod)
			if shown != want {
				t.Fatalf("with %d of %d nodes open the pod is shown %d, want %d (0: all)", open, 8+open, shown, want)
			}
			if cy := cycleOf(state); cy.narrowed {
				t.Error("no pod would be evicted for it")
			}
		}
	})
}
